package model

import (
	"encoding/json"
	"iter"
	"strings"

	"github.com/rouse-run/rouse"
)

// Answer is what a model answered, folded into one message.
//
// Cuts holds how the answer arrived, as lengths only, so that storing an Answer
// stores every byte once and Replay still yields the chunks again. It is written
// by a Folder, and its grammar (RFC 5234) is
//
//	cuts  = *group
//	group = ("t" / "r") sizes      ; text, reasoning: sizes of the pieces in bytes
//	      / "a" number ":" sizes   ; pieces of the arguments of call number
//	      / "s" / "c" / "u"        ; a signature, the next call, the usage
//	sizes = number *("," number)
//
// for example "r30st12,5ca0:7,3u". Numbers are decimal without leading zeros,
// sizes are never 0, and a group never follows one that it could be part of.
// The stop is not written down: an answer with a Stop ends with it.
type Answer struct {
	// Message is the assistant message, without an ID.
	Message rouse.Message `json:"message"`
	Usage   rouse.Usage   `json:"usage,omitzero"`
	// Stop is empty when the answer is not complete.
	Stop StopReason `json:"stop,omitempty"`
	Cuts string     `json:"cuts,omitempty"`
}

// Collect folds a stream to its end. With an error, the Answer is what had
// arrived before it. The error is the stream's own, or that of Folder.Add, or
// CodeStreamCut when the stream ended without a ChunkStop.
func Collect(stream iter.Seq2[Chunk, error]) (Answer, error) {
	var f Folder
	for c, err := range stream {
		if err == nil {
			err = f.Add(c)
		}
		if err != nil {
			return f.Partial(), err
		}
	}
	return f.Answer()
}

// CallComplete reports whether the arguments of c are one whole JSON object.
// No proper prefix of an object is one, so a call that was cut off while its
// arguments were written is never complete. Empty arguments are not complete
// either: after a cut nobody can tell whether more was to come. An answer that
// ended in the regular way may well hold calls without arguments.
func CallComplete(c rouse.ToolCall) bool {
	return strings.HasPrefix(strings.TrimLeft(c.Args, " \t\r\n"), "{") && json.Valid([]byte(c.Args))
}
