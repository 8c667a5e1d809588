package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool"
	"github.com/rouse-run/rouse/tool/builtin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// m is the arguments of a call.
type m map[string]any

// newTools returns tools over a fresh root; change may be nil.
func newTools(t testing.TB, change func(*builtin.Config)) (*builtin.Tools, string) {
	t.Helper()
	root := t.TempDir()
	cfg := builtin.Config{Root: root}
	if change != nil {
		change(&cfg)
	}
	tools, err := builtin.New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := tools.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return tools, root
}

func callWith(ctx context.Context, t testing.TB, tl tool.Tool, args any, progress func(string)) (string, error) {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	if progress == nil {
		progress = func(string) {}
	}
	res, err := tl.Call(ctx, &tool.Call{ID: "c1", Name: tl.Spec().Name, Args: raw, Attempt: 1, Progress: progress})
	return string(res.Output), err
}

// call returns the output of a call that must succeed.
func call(t testing.TB, tl tool.Tool, args any) string {
	t.Helper()
	out, err := callWith(t.Context(), t, tl, args, nil)
	if err != nil {
		t.Fatalf("%s %v: %v", tl.Spec().Name, args, err)
	}
	return out
}

// refused returns the error of a call that must fail with code, with words for the model.
func refused(t testing.TB, tl tool.Tool, args any, code rouse.Code) *rouse.Error {
	t.Helper()
	out, err := callWith(t.Context(), t, tl, args, nil)
	return coded(t, out, err, code)
}

func coded(t testing.TB, out string, err error, code rouse.Code) *rouse.Error {
	t.Helper()
	if err == nil {
		t.Fatalf("no error of code %s, but the output %.300q", code, out)
	}
	var e *rouse.Error
	if !errors.As(err, &e) || e.Code != code || e.Message == "" {
		t.Fatalf("got the error %v of code %s, want code %s with a message", err, rouse.CodeOf(err), code)
	}
	return e
}

func put(t testing.TB, root, rel, content string) {
	t.Helper()
	p := filepath.Join(root, rel)
	if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func content(t testing.TB, root, rel string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, rel))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func link(t testing.TB, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

func wantIn(t testing.TB, got string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(got, p) {
			t.Errorf("%.2000q does not contain %q", got, p)
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	put(t, filepath.Dir(file), "file", "x")
	for name, cfg := range map[string]builtin.Config{
		"no root":          {},
		"missing root":     {Root: filepath.Join(t.TempDir(), "none")},
		"root is a file":   {Root: file},
		"negative limit":   {Root: t.TempDir(), MaxReadBytes: -1},
		"negative timeout": {Root: t.TempDir(), Fetch: builtin.FetchConfig{Timeout: -1}},
		"bad variable":     {Root: t.TempDir(), Env: map[string]string{"A=B": "c"}},
		"reserved":         {Root: t.TempDir(), Env: map[string]string{"ROUSE_SHELL_CALL": "c"}},
		"timeouts swapped": {Root: t.TempDir(), ShellTimeout: 2, MaxShellTimeout: 1},
	} {
		if tools, err := builtin.New(cfg); rouse.CodeOf(err) != rouse.CodeInvalid || tools != nil {
			t.Errorf("%s: got %v, %v", name, tools, err)
		}
	}
	_, err := builtin.New(builtin.Config{MaxListEntries: -1, MaxWriteBytes: -1})
	wantIn(t, err.Error(), "Root", "MaxListEntries", "MaxWriteBytes")
}

func TestSpecs(t *testing.T) {
	t.Parallel()
	tools, _ := newTools(t, nil)
	effects := map[string]tool.Effect{"read_file": tool.ReadOnly, "list_dir": tool.ReadOnly, "search": tool.ReadOnly,
		"fetch": tool.ReadOnly, "write_file": tool.Unsafe, "shell": tool.Unsafe, "read_result": tool.ReadOnly}
	all := append(tools.All(), builtin.ReadResult(blobs{}))
	if len(all) != len(effects) {
		t.Fatalf("%d tools, want %d", len(all), len(effects))
	}
	for _, tl := range all {
		s := tl.Spec()
		effect, ok := effects[s.Name]
		if !ok || s.Effect != effect || s.Description == "" {
			t.Errorf("%s has the effect %q and the description %q", s.Name, s.Effect, s.Description)
		}
		var schema struct {
			Type       string                    `json:"type"`
			Properties map[string]map[string]any `json:"properties"`
			Additional *bool                     `json:"additionalProperties"`
		}
		if err := json.Unmarshal(s.Schema, &schema); err != nil || schema.Type != "object" || len(schema.Properties) == 0 ||
			schema.Additional == nil || *schema.Additional {
			t.Errorf("%s has the schema %s (%v)", s.Name, s.Schema, err)
		}
	}
}

func TestArgumentsAreStrict(t *testing.T) {
	t.Parallel()
	tools, _ := newTools(t, nil)
	for _, tl := range append(tools.All(), builtin.ReadResult(blobs{})) {
		for _, raw := range []string{``, `null`, `[]`, `"x"`, `{"unknown":1}`, `{} {}`, `{`, `{"path":1,"url":1,"command":1,"ref":1}`} {
			_, err := tl.Call(t.Context(), &tool.Call{Args: json.RawMessage(raw), Progress: func(string) {}})
			if rouse.CodeOf(err) != rouse.CodeInvalid {
				t.Errorf("%s %s: got %v", tl.Spec().Name, raw, err)
			}
		}
	}
}

func TestCanceledBeforeTheCall(t *testing.T) {
	t.Parallel()
	tools, _ := newTools(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tl := range tools.All() {
		out, err := callWith(ctx, t, tl, m{}, nil)
		coded(t, out, err, rouse.CodeCanceled)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, nil)
	put(t, root, "a", "x")
	for range 2 {
		if err := tools.Close(); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, tools.ReadFile(), m{"path": "a"}, rouse.CodeUnsupported)
	refused(t, tools.ListDir(), m{}, rouse.CodeUnsupported)
	refused(t, tools.Search(), m{"pattern": "x"}, rouse.CodeUnsupported)
	refused(t, tools.WriteFile(), m{"path": "b", "content": "x"}, rouse.CodeUnsupported)
	refused(t, tools.Shell(), m{"command": "true"}, rouse.CodeUnsupported)
}
