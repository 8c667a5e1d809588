package agent

import (
	"context"
	"encoding/json"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/run"
)

// ask has the model answer the conversation, and adds the answer to it.
func (s step) ask(ctx context.Context, sc *run.Scope[State], conv *conversation) (*AnswerData, error) {
	conv.settle(true)
	d := &AnswerData{Request: conv.hash(s.a.head), Model: s.a.cfg.ModelName}
	id := sc.NewID()
	seal := func(a model.Answer) json.RawMessage {
		d.Message, d.Usage, d.Stop, d.Cuts = a.Message, a.Usage, a.Stop, a.Cuts
		d.Message.ID = id
		return d.encode()
	}
	raw, err := sc.Draw(ctx, run.Draw{
		Type: rouse.EventAnswer,
		Live: func(ctx context.Context) (json.RawMessage, error) {
			a, err := s.stream(ctx, sc, conv)
			if err != nil {
				return nil, err
			}
			return seal(a), nil
		},
		Replay: func(_ context.Context, recorded json.RawMessage) (json.RawMessage, error) {
			a, err := recordedAnswer(recorded, d.Request)
			if err != nil {
				return nil, err
			}
			if a, err = model.Collect(model.Replay(a)); err != nil {
				return nil, err
			}
			return seal(a), nil
		},
	})
	if err != nil {
		return nil, err
	}
	conv.answer(d.Message, raw)
	return d, nil
}

// recordedAnswer reads an answer back and checks that it answers this request.
func recordedAnswer(recorded json.RawMessage, request string) (model.Answer, error) {
	var was AnswerData
	if err := json.Unmarshal(recorded, &was); err != nil {
		return model.Answer{}, &rouse.Error{Code: rouse.CodeCorrupt, Op: "agent", Message: "a recorded answer cannot be read", Err: err}
	}
	if was.Request != request {
		return model.Answer{}, &rouse.Error{
			Code: rouse.CodeNondeterministic, Op: "agent",
			Message: "the model would be asked something else than it was: the prompt, the tools, the model or what was said before has changed",
		}
	}
	was.Message.ID = ""
	return model.Answer{Message: was.Message, Usage: was.Usage, Stop: was.Stop, Cuts: was.Cuts}, nil
}

// stream asks the model and hands its answer on, piece by piece.
func (s step) stream(ctx context.Context, sc *run.Scope[State], conv *conversation) (model.Answer, error) {
	req := &conv.request
	*req = model.Request{
		Model: s.a.cfg.ModelName, System: s.a.system, Messages: conv.messages, Tools: s.a.tools,
		Params: s.a.cfg.Params, Memo: &conv.memo,
	}
	if s.a.native {
		req.Output = &model.OutputSpec{Name: s.a.cfg.Output.Name, Schema: s.a.cfg.Output.Schema}
	}
	var f model.Folder
	out := forwarder{sv: sc.Services}
	for c, err := range s.a.cfg.Model.Stream(ctx, req) {
		if err == nil {
			err = f.Add(c)
		}
		if err != nil {
			out.flush()
			return model.Answer{}, err
		}
		out.add(&c)
	}
	out.flush()
	return f.Answer()
}

// forwarder turns chunks into deltas. Pieces of one kind that have arrived
// together become one delta.
type forwarder struct {
	sv    run.Services
	typ   rouse.EventType // of what is held back; empty: nothing
	index int
	text  string
	held  []byte // more than one piece
	ids   []string
}

func (f *forwarder) add(c *model.Chunk) {
	switch c.Type {
	case model.ChunkText:
		f.piece(rouse.EventText, c)
	case model.ChunkReasoning:
		f.piece(rouse.EventReasoning, c)
	case model.ChunkArgs:
		f.piece(rouse.EventCallArgs, c)
	case model.ChunkCall:
		f.flush()
		f.ids = append(f.ids, c.ID)
		f.sv.Emit(rouse.EventCallStarted, rouse.Delta{Index: c.Index, Call: c.ID, Name: c.Name})
	case model.ChunkReset:
		f.flush()
		f.ids = f.ids[:0]
		f.sv.Emit(rouse.EventStreamReset, rouse.Delta{Text: c.Text})
	}
}

func (f *forwarder) piece(t rouse.EventType, c *model.Chunk) {
	if f.typ != "" && (f.typ != t || f.index != c.Index) {
		f.flush()
	}
	switch {
	case f.typ == "":
		f.typ, f.index, f.text = t, c.Index, c.Text
	case len(f.held) == 0:
		f.held = append(append(f.held, f.text...), c.Text...)
	default:
		f.held = append(f.held, c.Text...)
	}
	if !c.More {
		f.flush()
	}
}

func (f *forwarder) flush() {
	if f.typ == "" {
		return
	}
	d := rouse.Delta{Text: f.text}
	if len(f.held) > 0 {
		d.Text = string(f.held)
	}
	if f.typ == rouse.EventCallArgs {
		d.Index = f.index
		if f.index < len(f.ids) {
			d.Call = f.ids[f.index]
		}
	}
	t := f.typ
	f.typ, f.held = "", f.held[:0]
	f.sv.Emit(t, d)
}
