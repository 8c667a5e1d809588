package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store"
	"github.com/rouse-run/rouse/tool"
	"github.com/rouse-run/rouse/tool/builtin"
)

// pinVersion is the version of pinned.
const pinVersion = 1

// pinned is everything that defines a run's agent. It is stored with the run, so
// that resuming, replaying and forking build the same one; it holds no secret.
type pinned struct {
	Version int      `json:"v"`
	Agent   document `json:"agent"`
	Model   string   `json:"model"` // provider/name
	Root    string   `json:"root"`  // absolute
	Tools   []string `json:"tools"`
}

func (p pinned) meta() (json.RawMessage, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, &rouse.Error{Code: rouse.CodeInternal, Message: "the agent cannot be written as JSON", Err: err}
	}
	return b, nil
}

// pinOf reads back what a run was started with.
func pinOf(ctx context.Context, j run.Journal, row run.Row) (p pinned, err error) {
	raw, err := run.Meta(ctx, j, row)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(raw, &p); err != nil || p.Version == 0 {
		return p, &rouse.Error{Code: rouse.CodeUnsupported, Message: "run " + row.Run + " was not started by this program", Hint: "resume it with the program that knows its agent", Err: err}
	}
	if p.Version != pinVersion {
		return p, &rouse.Error{Code: rouse.CodeSchemaVersion, Message: fmt.Sprintf("run %s was started by another version of this program", row.Run), Hint: "use that version"}
	}
	return p, nil
}

// definition is the flags that define an agent.
type definition struct {
	Agent string   `help:"Agent: the name of one in DATA/agents, or a JSON file. Default: assistant." placeholder:"NAME|FILE.json"`
	Model string   `help:"Model: openai/NAME, ollama/NAME, llamacpp/NAME or demo. Default: the first found; see 'rouse models'." placeholder:"PROVIDER/NAME"`
	Tools []string `help:"Built-in tools to offer, or 'none'. Default: all." placeholder:"NAME,..."`
	Root  string   `help:"Directory that the tools work in. Default: the current one." placeholder:"DIR"`
}

// pin completes a definition to what is stored with a run.
func (a *app) pin(ctx context.Context, d definition) (p pinned, err error) {
	p.Version = pinVersion
	if p.Agent, err = a.findAgent(d.Agent); err != nil {
		return p, err
	}
	if p.Root, err = filepath.Abs(d.Root); err != nil {
		return p, usage("name it with --root DIR", "the current directory cannot be found: %v", err)
	}
	wanted := d.Tools
	if len(wanted) == 0 && p.Agent.Tools != nil {
		wanted = *p.Agent.Tools
		if len(wanted) == 0 {
			wanted = []string{"none"}
		}
	}
	if p.Tools, err = pickTools(p.Root, wanted); err != nil {
		return p, err
	}
	p.Model, err = a.resolveModel(ctx, firstOf(d.Model, p.Agent.Model, a.Getenv("ROUSE_MODEL")))
	return p, err
}

func firstOf(ss ...string) string {
	i := slices.IndexFunc(ss, func(s string) bool { return s != "" })
	if i < 0 {
		return ""
	}
	return ss[i]
}

// pickTools returns the names of the built-in tools that are wanted, in their own
// order; none wanted means all.
func pickTools(root string, wanted []string) ([]string, error) {
	ts, err := openTools(root, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ts.Close() }() // it was only looked at
	all := []string{}
	for _, t := range ts.all() {
		all = append(all, t.Spec().Name)
	}
	if len(wanted) == 0 {
		return all, nil
	}
	if slices.Equal(wanted, []string{"none"}) {
		return []string{}, nil
	}
	for _, w := range wanted {
		if !slices.Contains(all, w) {
			return nil, usage("", "there is no tool %q; there is: %s", w, strings.Join(all, ", "))
		}
	}
	return slices.DeleteFunc(all, func(n string) bool { return !slices.Contains(wanted, n) }), nil
}

// toolbox is the built-in tools of one root, with the one that reads stored results.
type toolbox struct {
	*builtin.Tools
	blobs builtin.BlobGetter
}

func openTools(root string, blobs builtin.BlobGetter) (*toolbox, error) {
	ts, err := builtin.New(builtin.Config{Root: root})
	if err != nil {
		var e *rouse.Error
		if errors.As(err, &e) && e.Code == rouse.CodeInvalid {
			return nil, &rouse.Error{Code: e.Code, Message: "the root " + root + " is not a directory that can be used", Hint: "name another one with --root DIR", Err: err}
		}
		return nil, err
	}
	return &toolbox{ts, blobs}, nil
}

func (t *toolbox) all() []tool.Tool { return append(t.All(), builtin.ReadResult(t.blobs)) }

// built is an agent that is ready to run.
type built struct {
	*agent.Agent
	pin    pinned
	meta   json.RawMessage
	budget run.Budget
	tools  *toolbox
}

func (b *built) close() error { return b.tools.Close() }

// build makes the agent that p describes.
func (a *app) build(ctx context.Context, st store.Store, p pinned) (*built, error) {
	m, err := a.openModel(ctx, p.Model)
	if err != nil {
		return nil, err
	}
	return a.assemble(st, p, p.Root, m)
}

// buildReplay makes the same agent for a replay: its model refuses to be asked,
// and its tools are only there to be described.
func (a *app) buildReplay(st store.Store, p pinned) (*built, error) {
	dir, err := a.dataDir()
	if err != nil {
		return nil, err
	}
	return a.assemble(st, p, dir, refuser{})
}

// assemble builds the agent. Only its own words, tools and name of the model are
// seen by the model and so by a replay; root is where the tools work.
func (a *app) assemble(st store.Store, p pinned, root string, m model.Model) (*built, error) {
	b := &built{pin: p}
	var err error
	if b.meta, err = p.meta(); err != nil {
		return nil, err
	}
	if b.budget, err = p.Agent.Budget.budget(); err != nil {
		return nil, &rouse.Error{Code: rouse.CodeInvalid, Message: err.Error()}
	}
	if b.tools, err = openTools(root, st); err != nil {
		return nil, err
	}
	offered := slices.DeleteFunc(b.tools.all(), func(t tool.Tool) bool { return !slices.Contains(p.Tools, t.Spec().Name) })
	set, err := tool.NewSet(offered...)
	if err != nil {
		return nil, join(err, b.close())
	}
	_, name := splitModel(p.Model)
	b.Agent, err = agent.New(agent.Config{
		Name: p.Agent.Name, Model: m, ModelName: name, System: p.Agent.System,
		Tools: set, Gate: tool.GateFunc(tool.AskUnlessReadOnly), MaxRounds: p.Agent.MaxRounds, Keeper: st, Log: a.log,
	})
	if err != nil {
		return nil, join(err, b.close())
	}
	return b, nil
}

// refuser is the model of a replay.
type refuser struct{}

func (refuser) Stream(context.Context, *model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		yield(model.Chunk{}, &rouse.Error{Code: rouse.CodeInternal, Op: "replay", Message: "a replay asked a model"})
	}
}
