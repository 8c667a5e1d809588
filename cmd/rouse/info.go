package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
)

type modelsCmd struct {
	JSON bool `name:"json" help:"Print one JSON object a line."`
}

// modelLine is one provider of 'rouse models --json'.
type modelLine struct {
	Provider string   `json:"provider"`
	Host     string   `json:"host,omitempty"`
	Key      bool     `json:"key"`
	Models   []string `json:"models"`
	Problem  string   `json:"problem,omitempty"`
	Default  bool     `json:"default,omitempty"`
}

// Run executes the command.
func (c *modelsCmd) Run(ctx context.Context, a *app) error {
	a.json = c.JSON
	var lines []modelLine
	for _, p := range a.providers() {
		lines = append(lines, a.look(ctx, p))
	}
	lines = append(lines, modelLine{Provider: demo, Models: []string{demo}})
	id, err := a.resolveModel(ctx, a.Getenv("ROUSE_MODEL"))
	if err != nil {
		a.note("rouse: %s", describe(err).Message)
	}
	if c.JSON {
		for _, l := range lines {
			name, _ := splitModel(id)
			l.Default = l.Provider == name
			if err := a.line(l); err != nil {
				return err
			}
		}
		return nil
	}
	return a.table("MODEL\tWHERE\tKEY\t", func(row func(...any) error) error {
		for _, l := range lines {
			if err := l.rows(id, row); err != nil {
				return err
			}
		}
		return nil
	})
}

// look finds out which models p has.
func (a *app) look(ctx context.Context, p provider) modelLine {
	l := modelLine{Provider: p.name, Host: hostOf(p.base), Key: p.key != "", Models: []string{}}
	switch {
	case !p.ready:
		l.Problem = p.setup
	case p.local && !onLoopback(p.base):
		l.Problem = "not asked: it is not on this machine; name a model with --model " + p.name + "/NAME"
	default:
		limit := listTime
		if p.local {
			limit = probeTime
		}
		names, err := p.list(ctx, limit)
		if err != nil {
			l.Problem = describe(err).Message
			break
		}
		l.Models = append(l.Models, names...)
	}
	return l
}

func (l modelLine) rows(chosen string, row func(...any) error) error {
	key := "no"
	if l.Key {
		key = "set"
	}
	if len(l.Models) == 0 {
		return row(l.Provider+"/...", l.Host, key, firstOf(l.Problem, "no model is loaded"))
	}
	for _, m := range l.Models {
		id, note := l.Provider+"/"+m, ""
		if l.Provider == demo {
			id, key, note = demo, "", "scripted, needs no provider"
		}
		if id == chosen {
			note = strings.TrimPrefix(note+"; the default", "; ")
		}
		if err := row(id, l.Host, key, note); err != nil {
			return err
		}
	}
	return nil
}

type versionCmd struct{}

// Run executes the command.
func (versionCmd) Run(a *app) error {
	version, revision := "unknown", ""
	goVersion := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version, goVersion = info.Main.Version, info.GoVersion
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = " " + s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				revision += " (modified)"
			}
		}
	}
	_, err := fmt.Fprintf(a.Stdout, "rouse %s%s %s\n", version, revision, goVersion)
	return err
}
