package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
)

// assistant is the name of the agent that is always there.
const assistant = "assistant"

const assistantPrompt = "You are a helpful assistant in a terminal. You work in one directory with the tools that you are offered. " +
	"Look before you answer, change only what you are asked to change, and say plainly what you did and what you could not do."

// maxDocument bounds the file of an agent, in bytes.
const maxDocument = 1 << 20

// document describes an agent. It is what a file for --agent holds.
type document struct {
	// Name is the agent's id: letters, digits, "-" and "_", at most 64.
	Name   string `json:"name"`
	System string `json:"system,omitempty"`
	// Model is what --model would say. Default: the first that is found.
	Model string `json:"model,omitempty"`
	// Tools are names of built-in tools. Absent: all; []: none.
	Tools     *[]string `json:"tools,omitempty"`
	MaxRounds int       `json:"max_rounds,omitempty"`
	Budget    *limits   `json:"budget,omitempty"`
}

// limits are run.Budget with a wall time that people can write.
type limits struct {
	Rounds       int64  `json:"rounds,omitempty"`
	ModelCalls   int64  `json:"model_calls,omitempty"`
	ToolCalls    int64  `json:"tool_calls,omitempty"`
	InputTokens  int64  `json:"input_tokens,omitempty"`
	OutputTokens int64  `json:"output_tokens,omitempty"`
	MicroUSD     int64  `json:"micro_usd,omitempty"`
	Wall         string `json:"wall,omitempty"` // as in "10m"
}

func (l *limits) budget() (run.Budget, error) {
	if l == nil {
		return run.Budget{}, nil
	}
	b := run.Budget{
		Rounds: l.Rounds, ModelCalls: l.ModelCalls, ToolCalls: l.ToolCalls,
		InputTokens: l.InputTokens, OutputTokens: l.OutputTokens, MicroUSD: l.MicroUSD,
	}
	if l.Wall != "" {
		d, err := time.ParseDuration(l.Wall)
		if err != nil || d <= 0 {
			return b, fmt.Errorf(`budget.wall %q is not a duration such as "10m"`, l.Wall)
		}
		b.Wall = d
	}
	for _, n := range []int64{b.Rounds, b.ModelCalls, b.ToolCalls, b.InputTokens, b.OutputTokens, b.MicroUSD} {
		if n < 0 {
			return b, errors.New("budget has a negative limit")
		}
	}
	return b, nil
}

var agentName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$`)

// check returns every problem of d.
func (d document) check() error {
	var errs []error
	if !agentName.MatchString(d.Name) {
		errs = append(errs, fmt.Errorf("name %q is not 1 to 64 letters, digits, - and _", d.Name))
	}
	if d.MaxRounds < 0 {
		errs = append(errs, errors.New("max_rounds is negative"))
	}
	if _, err := d.Budget.budget(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// decodeDocument reads an agent strictly: an unknown field is an error.
func decodeDocument(b []byte) (d document, err error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return d, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return d, errors.New("there is more after the object")
	}
	return d, d.check()
}

// findAgent returns the agent that --agent names: a file, or one of those in the
// data directory, or the assistant.
func (a *app) findAgent(name string) (document, error) {
	if name == "" || name == assistant {
		return document{Name: assistant, System: assistantPrompt}, nil
	}
	if strings.HasSuffix(name, ".json") || strings.ContainsRune(name, filepath.Separator) {
		return readDocument(name)
	}
	dir, err := a.dataDir()
	if err != nil {
		return document{}, err
	}
	dir = filepath.Join(dir, "agents")
	d, err := readDocument(filepath.Join(dir, name+".json"))
	if !errors.Is(err, fs.ErrNotExist) {
		return d, err
	}
	return d, usage("put a file "+name+".json into "+dir+", or give the path of one", "there is no agent %q; there is: %s", name, strings.Join(agentsIn(dir), ", "))
}

// agentsIn lists what findAgent would find. A directory that cannot be read has none.
func agentsIn(dir string) []string {
	names := []string{assistant}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return names
	}
	for _, e := range entries {
		if n, ok := strings.CutSuffix(e.Name(), ".json"); ok {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func readDocument(path string) (d document, err error) {
	bad := func(err error) error {
		return &rouse.Error{
			Code: rouse.CodeUsage, Err: err, Message: fmt.Sprintf("the agent %s cannot be used: %s", path, oneLine(err)),
			Hint: `an agent is a JSON object with "name" and, if wanted, "system", "model", "tools", "max_rounds", "budget"`,
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return d, bad(err)
	}
	defer func() { err = join(err, f.Close()) }()
	b, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err != nil {
		return d, bad(err)
	}
	if len(b) > maxDocument {
		return d, bad(fmt.Errorf("it is larger than %d bytes", maxDocument))
	}
	if d, err = decodeDocument(b); err != nil {
		return d, bad(err)
	}
	return d, nil
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
