package tooltest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rouse-run/rouse/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broken is Echo with one rule broken.
type broken struct {
	Echo
	spec func() tool.Spec
	call func(ctx context.Context, c *tool.Call) (tool.Result, error)
}

func (b broken) Spec() tool.Spec {
	if b.spec != nil {
		return b.spec()
	}
	return b.Echo.Spec()
}

func (b broken) Call(ctx context.Context, c *tool.Call) (tool.Result, error) {
	if b.call != nil {
		return b.call(ctx, c)
	}
	return b.Echo.Call(ctx, c)
}

// Every rule is broken by one tool, and the suite says so for that rule.
func TestSuiteFindsWhatIsBroken(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	var n atomic.Int64
	with := func(edit func(*tool.Spec)) func() tool.Spec {
		return func() tool.Spec {
			s := Echo{}.Spec()
			edit(&s)
			return s
		}
	}
	idempotent := with(func(s *tool.Spec) { s.Effect = tool.Idempotent })
	count := func(ctx context.Context, c *tool.Call) (tool.Result, error) { n.Add(1); return Echo{}.Call(ctx, c) }
	for name, tc := range map[string]struct {
		tool     broken
		edit     func(*Config)
		rule     string
		contains string
	}{
		"no count of changes": {broken{}, func(c *Config) { c.Changes = nil }, "config", "Changes is nil"},
		"no arguments":        {broken{}, func(c *Config) { c.Args = nil }, "config", "Args is empty"},
		"no tool":             {broken{}, func(c *Config) { c.Tool = nil }, "config", "Tool is nil"},
		"unstable spec":       {broken{spec: with(func(s *tool.Spec) { s.Description = fmt.Sprint(n.Add(1)) })}, nil, "spec", "and then"},
		"bad schema":          {broken{spec: with(func(s *tool.Spec) { s.Schema = json.RawMessage(`{"type":"string"}`) })}, nil, "set", "must be \"object\""},
		"fails":               {broken{}, func(c *Config) { c.Args = []string{`{"text":1}`} }, "args", "expected string"},
		"ignores its context": {broken{call: func(context.Context, *tool.Call) (tool.Result, error) { <-release; return tool.Result{}, nil }}, nil, "context", "still running"},
		"does not block":      {broken{}, func(c *Config) { c.Blocking = `{"text":"x"}` }, "context", "on its own"},
		"panics on some": {broken{call: func(ctx context.Context, c *tool.Call) (tool.Result, error) {
			if strings.Contains(string(c.Args), `""`) {
				panic("empty")
			}
			return Echo{}.Call(ctx, c)
		}}, func(c *Config) { c.Blocking = "" }, "generated", "panicked"},
		"not read only":  {broken{call: count}, func(c *Config) { c.Changes = n.Load }, "effect", "of a ReadOnly tool made"},
		"not idempotent": {broken{spec: idempotent, call: count}, func(c *Config) { c.Changes = n.Load }, "effect", "with the key"},
	} {
		c := Config{
			Tool: tc.tool, Args: []string{`{"text":"x"}`}, Blocking: `{"text":"x","wait":true}`,
			Patience: 20 * time.Millisecond, Changes: func() int64 { return 0 },
		}
		if tc.edit != nil {
			tc.edit(&c)
		}
		c = c.withDefaults()
		i := slices.IndexFunc(checks(), func(k check) bool { return k.name == tc.rule })
		short, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err := checks()[i].run(short, c)
		cancel()
		if err == nil || !strings.Contains(err.Error(), tc.contains) {
			t.Errorf("%s: got %v, want %q", name, err, tc.contains)
		}
	}
}

// Most of what is generated matches, for the schemas that tools commonly have.
func TestGeneratedArgumentsMatch(t *testing.T) {
	t.Parallel()
	type node struct {
		Name string         `json:"name"`
		Kids []*node        `json:"kids,omitempty"`
		Any  any            `json:"any,omitempty"`
		When *time.Time     `json:"when,omitempty"`
		Map  map[string]int `json:"map,omitempty"`
		Unit string         `json:"unit" enum:"a,b"`
		Arr  [2]bool        `json:"arr,omitempty"`
		Data []byte         `json:"data,omitempty"`
	}
	var entered int
	f, err := tool.Func(tool.FuncConfig{Name: "t"}, func(context.Context, node) (string, error) { entered++; return "", nil })
	if err != nil {
		t.Fatal(err)
	}
	set, err := tool.NewSet(f)
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGenerator(f.Spec().Schema, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	matched, distinct := 0, map[string]bool{}
	for range 500 {
		args := g.args()
		if _, refused := set.Check("t", args); refused == nil {
			matched++
			distinct[args] = true
		} else if matched == 0 {
			t.Log(args, refused)
		}
	}
	if matched < 400 || len(distinct) < 200 {
		t.Errorf("%d of 500 match, %d are different", matched, len(distinct))
	}
}
