package mock_test

import (
	"net/http"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/mock"
	"github.com/rouse-run/rouse/model/modeltest"
	"github.com/rouse-run/rouse/model/openai"
)

// The contract of model.Model, in each of the three ways of use: what the script
// says is the same, whichever way it is heard.

func TestContractInProcess(t *testing.T) {
	contract(t, func(_ testing.TB, g *mock.GPT) model.Model { return g })
}

func TestContractOverRoundTripper(t *testing.T) {
	contract(t, func(t testing.TB, g *mock.GPT) model.Model {
		return wired(t, "http://mock.invalid/v1", g.RoundTripper())
	})
}

func TestContractOverTCP(t *testing.T) {
	contract(t, func(t testing.TB, g *mock.GPT) model.Model {
		srv, err := g.NewServer()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := srv.Close(); err != nil {
				t.Error(err)
			}
		})
		return wired(t, srv.BaseURL(), nil)
	})
}

func wired(t testing.TB, url string, transport http.RoundTripper) model.Model {
	m, err := openai.New(openai.Config{BaseURL: url, Model: "mock", Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.CloseIdleConnections)
	return m
}

func contract(t *testing.T, reach func(testing.TB, *mock.GPT) model.Model) {
	modeltest.Run(t, modeltest.Config{Can: modeltest.Everything(), New: func(t testing.TB, s modeltest.Scenario) modeltest.Subject {
		g, err := mock.New(mock.Config{
			ChunkRunes: pieceRunes, Interleave: true,
			Rules: []mock.Rule{{Name: s.Name, Prompt: mock.Any, Generator: script(s)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return modeltest.Subject{Model: reach(t, g), Sent: func() int { return len(g.Requests()) }}
	}})
}

// pieceRunes is small, so that a scenario has many pieces.
const pieceRunes = 3

// script is the result that makes a provider do what s says.
func script(s modeltest.Scenario) mock.Result {
	var r mock.Result
	if s.Err != "" && s.Err != rouse.CodeStreamCut {
		r.Fault.RetryAfter = s.RetryAfter
		r.Fault.Status = map[rouse.Code]int{
			rouse.CodeRateLimited: 429, rouse.CodeOverloaded: 503, rouse.CodeProvider: 500, rouse.CodeProviderAuth: 401,
			rouse.CodeProviderRefused: 400, rouse.CodeContextOverflow: 413,
		}[s.Err]
		return r
	}
	var f model.Folder
	for _, c := range s.Chunks {
		if err := f.Add(c); err != nil {
			panic(err) // the suite's own scenario is broken
		}
	}
	a := f.Partial()
	r.Parts, r.Stop, r.Usage = a.Message.Parts, a.Stop, &a.Usage
	if a.Usage == (rouse.Usage{}) {
		r.Usage, r.Fault.NoUsage = nil, true
	}
	switch {
	case a.Stop != "":
		return r // a whole answer, or one whose end does not fit it
	case s.Stall:
		r.Fault.Break = mock.BreakHang
	default:
		r.Fault.Break = mock.BreakClose
	}
	if r.Fault.AfterChunks = pieces(a.Message); r.Fault.AfterChunks == 0 && !s.Stall {
		r.Fault.AfterBytes = 1 // the response begins, the answer does not
	}
	return r
}

// pieces counts what the mock sends of m: everything.
func pieces(m rouse.Message) (n int) {
	of := func(s string) int { return (len([]rune(s)) + pieceRunes - 1) / pieceRunes }
	for _, p := range m.Parts {
		n += of(p.Text)
		if p.Signature != "" {
			n++
		}
		if p.Call != nil {
			n += 1 + of(p.Call.Args)
		}
	}
	return n
}
