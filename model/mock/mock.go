package mock

import (
	"context"
	"crypto/sha256"
	"iter"
	"sync"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/safecall"
	"github.com/rouse-run/rouse/model"
)

// The defaults of a Config.
const (
	DefaultModel       = "mock"
	DefaultChunkRunes  = 12
	DefaultMaxRequests = 10_000
	DefaultMaxBody     = 32 << 20
)

// Config is what New needs. Only Rules has no default.
type Config struct {
	// Rules are tried in order; the first that matches answers. At least one.
	Rules []Rule
	// Seed decides ids and, with Vary, sizes and delays. Default 0.
	Seed uint64
	// Strict makes a Sequence that is used up an error. Default: its last result repeats.
	Strict bool
	// Model is the name that is answered when the request names none, and the one
	// that GET /v1/models lists. Default DefaultModel.
	Model string
	// Capabilities is what the model says it can do. Default: unknown.
	Capabilities model.Capabilities
	// ChunkRunes is the size of a piece of text, reasoning or arguments, in runes.
	// Default DefaultChunkRunes.
	ChunkRunes int
	// Vary draws each piece's size from 1 to 2*ChunkRunes-1 and each delay from
	// half to one and a half of what was asked, by Seed. Default: all are equal.
	Vary bool
	// Interleave sends the arguments of parallel calls in turns. Default: one call
	// after the other.
	Interleave bool
	// Clock stamps answers on the wire ("created"). Default: a clock that stands
	// still at the start of 2025, so that bytes do not depend on the day.
	Clock rouse.Clock
	// APIKey, when set, is the bearer token that HTTP requests must carry; others
	// get status 401. Default: none is asked for.
	APIKey string
	// MaxRequests bounds how many requests are recorded. The request after the
	// last one fails with CodeTooLarge. Default DefaultMaxRequests.
	MaxRequests int
	// MaxBody bounds the body of an HTTP request, in bytes. A larger one gets
	// status 413. Default DefaultMaxBody.
	MaxBody int64
}

func (c Config) withDefaults() Config {
	if c.Model == "" {
		c.Model = DefaultModel
	}
	if c.ChunkRunes == 0 {
		c.ChunkRunes = DefaultChunkRunes
	}
	if c.Clock == nil {
		c.Clock = stillClock{}
	}
	if c.MaxRequests == 0 {
		c.MaxRequests = DefaultMaxRequests
	}
	if c.MaxBody == 0 {
		c.MaxBody = DefaultMaxBody
	}
	return c
}

// stillClock always shows the same time.
type stillClock struct{}

func (stillClock) Now() time.Time { return time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC) }

// GPT is a scripted model. It implements model.Model and model.Capable and is
// safe for concurrent use.
type GPT struct {
	cfg   Config
	rules []rule

	mu       sync.Mutex
	requests []model.Request
	seen     map[[sha256.Size]byte]uint64 // how often the same request met the same rule
}

// New returns a model that answers by cfg.Rules. The error has the code
// CodeInvalid and names every problem of cfg at once. Constant results are copied.
func New(cfg Config) (*GPT, error) {
	var ps problems
	if len(cfg.Rules) == 0 {
		ps.addf("Rules", "at least one rule is needed")
	}
	for _, n := range []struct {
		name string
		val  int64
	}{{"ChunkRunes", int64(cfg.ChunkRunes)}, {"MaxRequests", int64(cfg.MaxRequests)}, {"MaxBody", cfg.MaxBody}} {
		if n.val < 0 {
			ps.addf(n.name, "must not be negative")
		}
	}
	g := &GPT{cfg: cfg.withDefaults(), seen: map[[sha256.Size]byte]uint64{}}
	for i := range cfg.Rules {
		g.rules = append(g.rules, compileRule(i, &cfg.Rules[i], &ps))
	}
	g.cfg.Rules = nil
	if err := ps.err("mock.New"); err != nil {
		return nil, err
	}
	return g, nil
}

// Model returns g as a model.Model.
func (g *GPT) Model() model.Model { return g }

// Capabilities returns the configured capabilities, the same for every model name.
func (g *GPT) Capabilities(string) model.Capabilities { return g.cfg.Capabilities }

// Stream answers req in process, as model.Model asks. Faults appear as the error
// that a client of the OpenAI-compatible wire makes of them; those of the script
// itself have the codes CodeNotFound (no rule matches, or a sequence is used up),
// CodeInvalid (a result cannot be sent), CodeTooLarge (MaxRequests) and
// CodeInternal (a function of a rule panicked). Delays and hangs end with ctx.
func (g *GPT) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		if err := g.stream(ctx, req, yield); err != nil {
			yield(model.Chunk{}, err)
		}
	}
}

// stream yields the chunks of an answer. It returns nil when the consumer broke
// off or the answer is complete.
func (g *GPT) stream(ctx context.Context, req *model.Request, yield func(model.Chunk, error) bool) error {
	if err := ctx.Err(); err != nil {
		return ended(ctx)
	}
	a, err := g.answer(ctx, req)
	if err != nil {
		return err
	}
	p, err := g.plan(a, req.Model, streamed|withUsage)
	if err != nil {
		return err
	}
	if err := sleep(ctx, p.first); err != nil {
		return err
	}
	if p.status != 0 {
		return statusError(&a.fault)
	}
	for i := range p.pieces {
		pc := &p.pieces[i]
		if err := sleep(ctx, pc.delay); err != nil {
			return err
		}
		if pc.err != nil {
			return pc.err
		}
		if pc.chunk.Type != 0 && !yield(pc.chunk, nil) {
			return nil
		}
	}
	return p.end.directError(ctx, p.started)
}

// Generate answers req in process and returns the whole message: the role is
// assistant, the ID is empty, and neighbouring pieces of the same kind are one
// part. The errors are those of Stream.
func (g *GPT) Generate(ctx context.Context, req *model.Request) (rouse.Message, error) {
	m := rouse.Message{Role: rouse.RoleAssistant}
	var calls []int // part of each call
	for c, err := range g.Stream(ctx, req) {
		if err != nil {
			return rouse.Message{}, err
		}
		switch c.Type {
		case model.ChunkText:
			last(&m, rouse.PartText).Text += c.Text
		case model.ChunkReasoning:
			last(&m, rouse.PartReasoning).Text += c.Text
		case model.ChunkSignature:
			last(&m, rouse.PartReasoning).Signature = c.Text
		case model.ChunkCall:
			calls = append(calls, len(m.Parts))
			m.Parts = append(m.Parts, rouse.CallPart(rouse.ToolCall{ID: c.ID, Name: c.Name}))
		case model.ChunkArgs:
			m.Parts[calls[c.Index]].Call.Args += c.Text
		case model.ChunkUsage, model.ChunkReset, model.ChunkStop:
		}
	}
	return m, nil
}

// last returns the last part of m if more of type t can be added to it, and
// otherwise a new one. A signature closes a reasoning part.
func last(m *rouse.Message, t rouse.PartType) *rouse.Part {
	if n := len(m.Parts); n > 0 && m.Parts[n-1].Type == t && m.Parts[n-1].Signature == "" {
		return &m.Parts[n-1]
	}
	m.Parts = append(m.Parts, rouse.Part{Type: t})
	return &m.Parts[len(m.Parts)-1]
}

// Requests returns copies of the requests so far, in order of arrival, also of
// those that ended with an error. Requests that a wire could not decode are not
// among them. Memo is nil.
func (g *GPT) Requests() []model.Request {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]model.Request, len(g.requests))
	for i := range g.requests {
		out[i] = cloneRequest(&g.requests[i])
	}
	return out
}

// Reset brings g back to where New left it: no request is recorded, sequences
// begin anew, Times are unused.
func (g *GPT) Reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests = nil
	clear(g.seen)
	for i := range g.rules {
		g.rules[i].used = 0
	}
}

func (g *GPT) record(req *model.Request) error {
	c := cloneRequest(req)
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.requests) >= g.cfg.MaxRequests {
		return &rouse.Error{Code: rouse.CodeTooLarge, Op: op, Message: "the scripted model has recorded as many requests as MaxRequests allows",
			Hint: "raise mock.Config.MaxRequests, or call Reset between tests"}
	}
	g.requests = append(g.requests, c)
	return nil
}

// answer records req, finds the rule and lets it speak. The seed of the answer
// is part of it.
func (g *GPT) answer(ctx context.Context, req *model.Request) (answer, error) {
	if err := g.record(req); err != nil {
		return answer{}, err
	}
	if err := checkRequest(req); err != nil {
		return answer{}, err
	}
	mine := cloneRequest(req) // user code gets a copy of its own
	i, n, err := g.match(ctx, &mine)
	if err != nil {
		return answer{}, err
	}
	a, err := g.rules[i].result(ctx, n, g.cfg.Strict, &mine)
	if err != nil {
		return answer{}, err
	}
	digest := requestDigest(g.cfg.Seed, i, req)
	g.mu.Lock()
	a.seed = answerSeed(digest, g.seen[digest])
	g.seen[digest]++
	g.mu.Unlock()
	if a.usage == nil {
		u := estimate(req, a.parts)
		a.usage = &u
	}
	return a, nil
}

// match returns the first rule that matches and is not used up, and how often
// it had been used before.
func (g *GPT) match(ctx context.Context, req *model.Request) (index, used int, err error) {
	prompt := lastUserText(req)
	for i := range g.rules {
		r := &g.rules[i]
		var ok bool
		err := safecall.Do(ctx, op+" "+r.name+".Prompt", func(context.Context) error {
			ok = r.match(prompt, req)
			return nil
		})
		if err != nil {
			return 0, 0, err
		}
		if !ok {
			continue
		}
		g.mu.Lock()
		n, free := r.used, r.times == 0 || r.used < r.times
		if free {
			r.used++
		}
		g.mu.Unlock()
		if free {
			return i, n, nil
		}
	}
	return 0, 0, &rouse.Error{Code: rouse.CodeNotFound, Op: op, Message: "no rule of the scripted model matches the prompt " + quoted(prompt),
		Hint: "add a mock.Rule whose Prompt is contained in it"}
}
