package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
)

// Interrupted is what the model is told about a call that has no result because
// its run ended first.
const Interrupted = "[the call was interrupted and has no result]"

// conversation is the messages that a thread's journal amounts to, kept while a
// frame lives. It grows by one fold step per event, so a loop of K rounds costs
// O(K). Results stand in the order of their calls, whatever order they came in.
type conversation struct {
	messages []rouse.Message
	calls    []rouse.ToolCall    // of the last answer
	results  []*rouse.ToolResult // by index of the call; nil: none yet
	missing  int
	sum      hash.Hash // over the data of every event, in the order of messages
	queued   [][]byte  // data of the results, by index
	memo     model.Memo
	request  model.Request // of the last round, reused
}

func newConversation() *conversation { return &conversation{sum: sha256.New()} }

// message adds a user's message; data is what its event holds.
func (c *conversation) message(m rouse.Message, data []byte) {
	c.settle(true)
	c.messages = append(c.messages, m)
	c.sum.Write(data)
}

// answer adds a model's message. One without text and calls is left out: it
// would only confuse the next request.
func (c *conversation) answer(m rouse.Message, data []byte) {
	c.settle(true)
	c.sum.Write(data)
	if !says(m) {
		return
	}
	c.messages = append(c.messages, m)
	c.calls = m.Calls()
	c.missing = len(c.calls)
	c.results, c.queued = make([]*rouse.ToolResult, c.missing), make([][]byte, c.missing)
}

// says reports whether a message has anything but reasoning in it.
func says(m rouse.Message) bool {
	for i := range m.Parts {
		if t := m.Parts[i].Type; t == rouse.PartToolCall || t == rouse.PartText && m.Parts[i].Text != "" {
			return true
		}
	}
	return false
}

// result adds what became of a call of the last answer. A second result of the
// same call changes nothing.
func (c *conversation) result(i int, r rouse.ToolResult, data []byte) {
	if i < 0 || i >= len(c.results) || c.results[i] != nil {
		return
	}
	c.results[i], c.queued[i] = &r, data
	c.missing--
	if c.missing == 0 {
		c.settle(false)
	}
}

// settle writes the results of the last answer's calls into the conversation.
// With force, calls that have none are said to be interrupted.
func (c *conversation) settle(force bool) {
	if len(c.calls) == 0 || c.missing > 0 && !force {
		return
	}
	for i, r := range c.results {
		if r == nil {
			r = &rouse.ToolResult{CallID: c.calls[i].ID, Name: c.calls[i].Name, Output: Interrupted, Error: true}
		}
		c.messages = append(c.messages, rouse.ResultMessage(*r))
		c.sum.Write(c.queued[i])
	}
	c.calls, c.results, c.queued = nil, nil, nil
}

// hash identifies everything that was said so far, together with head.
func (c *conversation) hash(head []byte) string {
	var buf [sha256.Size]byte
	sum := c.sum.Sum(buf[:0])
	both := sha256.New()
	both.Write(head)
	both.Write(sum)
	return hex.EncodeToString(both.Sum(buf[:0])[:16])
}
