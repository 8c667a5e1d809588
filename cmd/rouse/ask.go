package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/tool"
)

// maxShown bounds what is shown of a call's arguments, in bytes, so that a
// question stays on the screen.
const maxShown = 4 << 10

// answer answers the open questions of r. Some tells that at least one was
// answered; the error, that the person has gone or wants to stop.
func (s *session) answer(ctx context.Context, r *run.Run[agent.Answer], b *built) (some bool, err error) {
	for _, q := range r.Asks() {
		by, value, err := s.decide(ctx, q, b)
		if err != nil {
			if errors.Is(err, errInterrupt) {
				s.a.stop.interrupt()
			}
			return some, err
		}
		if value == nil {
			continue
		}
		raw, err := json.Marshal(value)
		if err != nil {
			return some, err
		}
		if err := r.Answer(ctx, run.Decision{Ask: q.ID, By: by, Value: raw}); err != nil {
			return some, err
		}
		some = true
	}
	return some, nil
}

// decide finds the answer to one question and who gave it; nil when there is none.
func (s *session) decide(ctx context.Context, q run.Ask, b *built) (by string, value any, err error) {
	call := askedCall(q)
	switch q.Kind {
	case agent.AskPermission:
		switch {
		case s.how.Yes:
			return "--yes", agent.Permission{Allow: true}, nil
		case s.always[call.Call.Name]:
			return "terminal, always", agent.Permission{Allow: true}, nil
		case !s.a.term.there():
			s.a.note("rouse: %s was denied: there is no terminal to ask on (--yes allows every tool)", call.Call.Name)
			return "rouse", agent.Permission{Reason: "no terminal to ask on"}, nil
		}
		p, err := s.askPermission(ctx, call, b)
		return "terminal", p, err
	case agent.AskUncertain:
		switch {
		case s.how.Resolve != "ask":
			return "--resolve", agent.Resolution{Action: s.how.Resolve, Output: s.how.Result}, nil
		case !s.a.term.there():
			return "", nil, nil
		}
		res, err := s.askUncertain(ctx, call, b)
		return "terminal", res, err
	}
	return "", nil, nil
}

// askedCall is the call that a question is about; empty when it cannot be read.
func askedCall(q run.Ask) agent.PermissionAsk {
	var p agent.PermissionAsk
	if json.Unmarshal(q.Payload, &p) != nil {
		return agent.PermissionAsk{}
	}
	return p
}

func (s *session) askPermission(ctx context.Context, p agent.PermissionAsk, b *built) (agent.Permission, error) {
	s.a.note("")
	s.a.note("The agent asks to run %s:", p.Call.Name)
	s.a.note("%s", pretty(p.Call.Args))
	s.a.note("It would %s.", consequence(p, b.pin.Root))
	for {
		line, err := s.a.term.readLine(ctx, "Allow? y = once, a = always "+p.Call.Name+" in this session, n [reason] = no: ", false)
		if err != nil {
			return agent.Permission{}, err
		}
		word, reason, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch strings.ToLower(word) {
		case "y", "yes":
			return agent.Permission{Allow: true}, nil
		case "a", "always":
			s.always[p.Call.Name] = true
			return agent.Permission{Allow: true}, nil
		case "n", "no":
			return agent.Permission{Reason: strings.TrimSpace(reason)}, nil
		}
		s.a.note("Please answer y, a or n.")
	}
}

func (s *session) askUncertain(ctx context.Context, p agent.PermissionAsk, b *built) (agent.Resolution, error) {
	s.a.note("")
	s.a.note("%s was begun when the run was interrupted. It may have taken effect, or not:", p.Call.Name)
	s.a.note("%s", pretty(p.Call.Args))
	s.a.note("It was to %s. Please look, and decide.", consequence(p, b.pin.Root))
	for {
		line, err := s.a.term.readLine(ctx, "r = run it again, s RESULT = it happened and this is its result, g = give up: ", false)
		if err != nil {
			return agent.Resolution{}, err
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		switch strings.ToLower(word) {
		case "r", "retry":
			return agent.Resolution{Action: agent.ResolveRetry}, nil
		case "g", "give", "give_up":
			return agent.Resolution{Action: agent.ResolveGiveUp}, nil
		case "s", "supply":
			if rest != "" {
				return agent.Resolution{Action: agent.ResolveSupply, Output: rest}, nil
			}
			s.a.note("Please write the result after the s.")
			continue
		}
		s.a.note("Please answer r, s or g.")
	}
}

// pretty shows arguments indented and without anything that could hide on a
// terminal.
func pretty(args string) string {
	var buf bytes.Buffer
	if err := json.Indent(&buf, []byte(args), "  ", "  "); err != nil {
		return "  " + cut(args, maxShown)
	}
	text := buf.String()
	if len(text) > maxShown {
		text = cut(text, maxShown) + fmt.Sprintf("\n  [%d bytes in all]", len(args))
	}
	return "  " + text
}

// consequence says what a call would do.
func consequence(p agent.PermissionAsk, root string) string {
	var args struct {
		Path    string `json:"path"`
		Content string `json:"content"`
		Mode    string `json:"mode"`
	}
	_ = json.Unmarshal([]byte(p.Call.Args), &args) // what cannot be read is not said
	switch p.Call.Name {
	case "shell":
		return "run this command with /bin/sh in " + root + ", with all your rights"
	case "write_file":
		verb := map[string]string{"overwrite": "replace", "append": "append to"}[args.Mode]
		if verb == "" {
			verb = "create"
		}
		return fmt.Sprintf("%s %s with %d bytes", verb, filepath.Join(root, args.Path), len(args.Content))
	}
	if tool.Effect(p.Effect) == tool.Idempotent {
		return "change something; doing it twice is the same as once"
	}
	return "change something, and cannot be repeated safely"
}

// isLeave reports whether a person ended a question instead of answering it.
func isLeave(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, errGone) }
