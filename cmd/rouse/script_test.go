//go:build unix

package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver" // the scripts' command sql
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/mock"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store/sqlite"
)

func queryOf(thread string) run.Query { return run.Query{Thread: thread} }

// TestScripts runs the scenarios in testdata/script. Beyond what testscript
// offers they have these commands:
//
//	model FILE      start a server with the rules in FILE, and configure it as OPENAI_BASE_URL
//	asked N TEXT    the N-th request to it (from 0) holds TEXT; "!" negates
//	sql STATEMENT   change the database behind the program's back
//	tty FILE ARGS   run the program in a terminal, with a person who does what FILE says
//	damaged         the database is not verified at the end
//	id NAME LIST    set a variable to the id in the first line of "rouse LIST --json"
//
// When a script is over, every run that it made is replayed and verified.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"model": cmdModel, "asked": cmdAsked, "sql": cmdSQL, "id": cmdID, "tty": cmdTTY, "damaged": cmdDamaged,
		},
	})
}

func setup(e *testscript.Env) error {
	dir, err := os.MkdirTemp("", "rouse-script")
	if err != nil {
		return err
	}
	data := filepath.Join(dir, "data")
	e.Setenv("ROUSE_DATA", data)
	e.Setenv("DB", filepath.Join(data, sqlite.FileName))
	e.Setenv("OLLAMA_HOST", "127.0.0.1:1") // nobody listens there
	e.Setenv("LLAMACPP_HOST", "127.0.0.1:1")
	damaged := false
	e.Values["damaged"] = &damaged
	e.Defer(func() {
		defer func() { _ = os.RemoveAll(dir) }()
		if _, err := os.Stat(filepath.Join(data, sqlite.FileName)); errors.Is(err, fs.ErrNotExist) || damaged {
			return
		}
		verifyAll(context.Background(), fatal{e.T()}, data)
	})
	return nil
}

// fatal makes a failer of a script's T.
type fatal struct{ t testscript.T }

func (f fatal) Fatalf(format string, args ...any) { f.t.Fatal(sprintf(format, args...)) }

// answer is one answer of a rule file, in the order in which they are given.
type answer struct {
	Text  string `json:"text"`
	Calls []struct {
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"calls"`
	Status    int    `json:"status"`
	Malformed bool   `json:"malformed"`
	Break     string `json:"break"`
	Times     int    `json:"times"` // how often in a row; 0 is once
}

func (a answer) result() mock.Result {
	r := mock.Result{Text: a.Text}
	for _, c := range a.Calls {
		r.Calls = append(r.Calls, mock.Call{Name: c.Name, Args: c.Args})
	}
	r.Fault = mock.Fault{Status: a.Status, MalformedJSON: a.Malformed, Break: mock.Break(a.Break)}
	return r
}

func cmdModel(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: model FILE")
	}
	var answers []answer
	if err := json.Unmarshal([]byte(ts.ReadFile(args[0])), &answers); err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
	var seq []any
	for _, a := range answers {
		for range max(a.Times, 1) {
			seq = append(seq, a.result())
		}
	}
	gpt, err := mock.New(mock.Config{Rules: []mock.Rule{{Prompt: mock.Any, Sequence: seq}}, Strict: true, Model: "scripted"})
	ts.Check(err)
	srv, err := gpt.NewServer()
	ts.Check(err)
	ts.Defer(func() { _ = srv.Close() })
	ts.Setenv("OPENAI_BASE_URL", srv.BaseURL())
	servers.put(ts, gpt)
}

func cmdAsked(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: asked N TEXT")
	}
	var n int
	ts.Check(json.Unmarshal([]byte(args[0]), &n))
	reqs := servers.get(ts).Requests()
	if n >= len(reqs) {
		ts.Fatalf("there were %d requests", len(reqs))
	}
	if got := wordsOf(&reqs[n]); strings.Contains(got, args[1]) == neg {
		ts.Fatalf("request %d is\n%s", n, got)
	}
}

// wordsOf is everything that a request says.
func wordsOf(req *model.Request) string {
	var b strings.Builder
	b.WriteString("model: " + req.Model + "\nsystem: " + req.System + "\n")
	for _, m := range req.Messages {
		b.WriteString(string(m.Role) + ": " + m.Text())
		for _, c := range m.Calls() {
			b.WriteString(" call " + c.Name + " " + c.Args)
		}
		for _, p := range m.Parts {
			if p.Type == rouse.PartToolResult {
				b.WriteString(p.Result.Output)
			}
		}
		b.WriteByte('\n')
	}
	for _, t := range req.Tools {
		b.WriteString("tool: " + t.Name + "\n")
	}
	return b.String()
}

func cmdSQL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sql STATEMENT")
	}
	db, err := sql.Open("sqlite3", "file:"+ts.Getenv("DB"))
	ts.Check(err)
	defer func() { _ = db.Close() }()
	res, err := db.Exec(args[0])
	ts.Check(err)
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		ts.Fatalf("%d rows were changed, want 1: %v", n, err)
	}
}

func cmdDamaged(ts *testscript.TestScript, _ bool, _ []string) {
	if d, ok := ts.Value("damaged").(*bool); ok {
		*d = true
	}
}

func cmdID(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: id NAME LIST...")
	}
	ctx := context.Background()
	out, errs, code := in(ctx, map[string]string{"ROUSE_DATA": ts.Getenv("ROUSE_DATA")}, append(args[1:], "--json")...)
	var row struct {
		ID string `json:"id"`
	}
	first, _, _ := strings.Cut(out, "\n")
	if err := json.Unmarshal([]byte(first), &row); err != nil || code != 0 {
		ts.Fatalf("%q: %v\n%s", out, err, errs)
	}
	ts.Setenv(args[0], row.ID)
}
