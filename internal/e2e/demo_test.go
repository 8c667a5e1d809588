package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/model/mock"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/tool"
	"github.com/rouse-run/rouse/tool/builtin"
)

// The demo that a newcomer sees first, with the real tools over a real directory,
// and every question answered in one way or the other.
func TestDemoWithTheRealTools(t *testing.T) {
	t.Parallel()
	const written = "rouse-demo.txt"
	for name, c := range map[string]struct {
		prompt, tool string
		allow        bool
	}{
		"a file, allowed":    {`write a file about "the lake"`, "write_file", true},
		"a file, denied":     {`write a file about "the lake"`, "write_file", false},
		"a command, allowed": {`run something about "the lake"`, "shell", true},
		"a command, denied":  {`run something about "the lake"`, "shell", false},
		"only looking":       {`what about "the lake"?`, "", false},
	} {
		for _, overTCP := range []bool{false, true} {
			t.Run(name+map[bool]string{false: "/in process", true: "/over TCP"}[overTCP], func(t *testing.T) {
				t.Parallel()
				root := t.TempDir()
				for file, text := range map[string]string{"README.md": "# Lakes\n", "notes.txt": "first line\nthe lake is deep\n", "sub/inner.txt": "the lake again\n"} {
					path := filepath.Join(root, file)
					if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				tools, err := builtin.New(builtin.Config{Root: root})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := tools.Close(); err != nil {
						t.Error(err)
					}
				})
				set, err := tool.NewSet(tools.All()...)
				if err != nil {
					t.Fatal(err)
				}
				g, m := provider(t, mock.Config{Rules: mock.Demo()})
				if !overTCP {
					m = g
				}
				a := newAgent(t, agent.Config{Model: m, Tools: set, Gate: tool.GateFunc(tool.AskUnlessReadOnly)})
				j := run.NewMemory()
				r, evs := drive(t, a, j, c.prompt)
				if c.tool != "" {
					evs = append(evs, decideDemo(t, a, j, r, c.tool, c.allow)...)
				}
				ans := completed(t, r)
				for _, part := range []string{"README.md", "notes.txt", "the lake is deep", "script"} {
					if !strings.Contains(ans.Text, part) {
						t.Errorf("%q is missing in\n%s", part, ans.Text)
					}
				}
				for _, res := range results(t, evs) {
					if denied := res.Name == c.tool && !c.allow; res.Error != denied {
						t.Errorf("the result of %s is %+v", res.Name, res)
					}
				}
				_, err = os.Stat(filepath.Join(root, written))
				if exists := err == nil; exists != (c.tool == "write_file" && c.allow) {
					t.Errorf("the file is there: %v", exists)
				}
				if c.tool != "" && !strings.Contains(ans.Text, map[bool]string{true: map[string]string{"write_file": written, "shell": "hello from the scripted demo model"}[c.tool], false: "denied"}[c.allow]) {
					t.Errorf("the report does not say what became of it:\n%s", ans.Text)
				}
				if ans.Rounds > 4 || len(g.Requests()) != ans.Rounds {
					t.Errorf("%d rounds, %d requests", ans.Rounds, len(g.Requests()))
				}
				wellFormed(t, g.Requests())
			})
		}
	}
}

// decideDemo answers the one question of a run, and drives it on.
func decideDemo(t *testing.T, a *agent.Agent, j run.Journal, r *run.Run[agent.Answer], name string, allow bool) []rouse.Event {
	t.Helper()
	if r.Status() != rouse.StatusWaiting || len(r.Asks()) != 1 {
		t.Fatalf("the run is %s with the questions %+v", r.Status(), r.Asks())
	}
	ask := r.Asks()[0]
	var p agent.PermissionAsk
	if err := json.Unmarshal(ask.Payload, &p); err != nil || ask.Kind != agent.AskPermission || p.Call.Name != name {
		t.Fatalf("the question is %+v, %v", ask, err)
	}
	value, err := json.Marshal(agent.Permission{Allow: allow, Reason: "not today"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Answer(t.Context(), run.Decision{Ask: ask.ID, By: "test", Value: value}); err != nil {
		t.Fatal(err)
	}
	return goOn(t, a, j, r)
}
