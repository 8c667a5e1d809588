package rouse_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rouse-run/rouse"
)

// constants returns the values of the constants of a type that a file declares.
func constants(t *testing.T, file, typ string) (values []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != typ {
			return true
		}
		for _, v := range spec.Values {
			s, err := strconv.Unquote(v.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, s)
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("%s declares no %s", file, typ)
	}
	return values
}

func TestCodesListsEveryCode(t *testing.T) {
	t.Parallel()
	var listed []string
	for _, c := range rouse.Codes() {
		listed = append(listed, string(c))
	}
	declared := constants(t, "error.go", "Code")
	slices.Sort(listed)
	slices.Sort(declared)
	if !slices.Equal(listed, declared) {
		t.Errorf("Codes lists\n%q\nbut these are declared:\n%q", listed, declared)
	}
}

func TestWhatEachCodeMeans(t *testing.T) {
	t.Parallel()
	numbers := map[int]rouse.Code{}
	for _, c := range rouse.Codes() {
		i := c.Info()
		if i.HTTP < 400 || i.HTTP > 599 {
			t.Errorf("%s: HTTP status %d is not that of an error", c, i.HTTP)
		}
		// JSON-RPC 2.0 section 5.1: the four numbers of its own that are about a
		// request, and the range for servers.
		own := i.JSONRPC <= -32600 && i.JSONRPC >= -32603
		if server := i.JSONRPC <= -32000 && i.JSONRPC >= -32099; !own && !server {
			t.Errorf("%s: %d is neither one of JSON-RPC's own numbers nor a server's", c, i.JSONRPC)
		}
		if other, taken := numbers[i.JSONRPC]; taken {
			t.Errorf("%s and %s share the number %d", c, other, i.JSONRPC)
		}
		numbers[i.JSONRPC] = c
		if want := map[bool]int{true: 2, false: 1}[c == rouse.CodeUsage]; i.Exit != want {
			t.Errorf("%s: exit status %d, not %d", c, i.Exit, want)
		}
		if i.Span != "ok" && i.Span != "error" && i.Span != "unset" {
			t.Errorf("%s: span status %q", c, i.Span)
		}
		// Nobody may repeat what was refused for what it says.
		if i.Retryable && i.HTTP < 500 && i.HTTP != 409 && i.HTTP != 429 {
			t.Errorf("%s: retryable, but HTTP %d blames the request", c, i.HTTP)
		}
	}
	if got := rouse.CodeCanceled.Info().Span; got != "unset" {
		t.Errorf("a canceled span has the status %q: stopping is no error", got)
	}
	for _, c := range []rouse.Code{"", "nonsense"} {
		if c.Info() != rouse.CodeInternal.Info() {
			t.Errorf("the unknown code %q means %+v", c, c.Info())
		}
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]*rouse.Error{
		"busy":                               {Code: rouse.CodeBusy},
		"no room":                            {Code: rouse.CodeBusy, Message: "no room", Hint: "wait"},
		"run: busy":                          {Code: rouse.CodeBusy, Op: "run"},
		"run: no room: EOF":                  {Code: rouse.CodeBusy, Op: "run", Message: "no room", Err: io.EOF},
		"busy: EOF":                          {Code: rouse.CodeBusy, Err: io.EOF},
		"run: no room: store: disk full":     {Code: rouse.CodeBusy, Op: "run", Message: "no room", Err: &rouse.Error{Code: rouse.CodeStorage, Op: "store", Message: "disk full"}},
		"model: come back later: rate: slow": {Op: "model", Message: "come back later", RetryAfter: time.Hour, Err: fmt.Errorf("rate: %w", errors.New("slow"))},
	} {
		if got := e.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestErrorIs(t *testing.T) {
	t.Parallel()
	inner := &rouse.Error{Code: rouse.CodeStorage, Op: "store.commit", Message: "disk full", Err: io.ErrShortWrite}
	err := fmt.Errorf("saving: %w", &rouse.Error{Code: rouse.CodeBusy, Op: "run", Message: "no room", Err: inner})
	for name, target := range map[string]error{
		"the code":              &rouse.Error{Code: rouse.CodeBusy},
		"the code of the cause": &rouse.Error{Code: rouse.CodeStorage},
		"the cause itself":      inner,
		"the root":              io.ErrShortWrite,
	} {
		if !errors.Is(err, target) {
			t.Errorf("%s does not match", name)
		}
	}
	for name, target := range map[string]error{
		"another code":      &rouse.Error{Code: rouse.CodeConflict},
		"no code":           &rouse.Error{},
		"with an operation": &rouse.Error{Code: rouse.CodeBusy, Op: "run"},
		"with a message":    &rouse.Error{Code: rouse.CodeBusy, Message: "no room"},
		"with a cause":      &rouse.Error{Code: rouse.CodeBusy, Err: inner},
		"with a hint":       &rouse.Error{Code: rouse.CodeBusy, Hint: "wait"},
		"with a wait":       &rouse.Error{Code: rouse.CodeBusy, RetryAfter: time.Second},
		"another root":      io.EOF,
	} {
		if errors.Is(err, target) {
			t.Errorf("%s matches", name)
		}
	}
	if got := errors.Unwrap(err); got == nil || errors.Unwrap(got) != error(inner) || errors.Unwrap(&rouse.Error{Code: rouse.CodeBusy}) != nil { //nolint:errorlint // the very same error
		t.Error("Unwrap is not the cause")
	}
}

func TestCodeOf(t *testing.T) {
	t.Parallel()
	busy := &rouse.Error{Code: rouse.CodeBusy, Err: &rouse.Error{Code: rouse.CodeStorage}}
	for _, c := range []struct {
		err  error
		want rouse.Code
	}{
		{nil, ""},
		{io.EOF, rouse.CodeInternal},
		{busy, rouse.CodeBusy},
		{fmt.Errorf("x: %w", busy), rouse.CodeBusy},
		{errors.Join(io.EOF, busy), rouse.CodeBusy},
	} {
		if got := rouse.CodeOf(c.err); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}
