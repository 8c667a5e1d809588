package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/bench/internal/workload"
	"github.com/rouse-run/rouse/model/openai"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store/sqlite"
	"github.com/rouse-run/rouse/tool"
)

// rousePeer is the runtime as a program embeds it: an agent over the
// OpenAI-compatible wire, with a journal in memory or in SQLite.
type rousePeer struct {
	mode      string
	agent     *agent.Agent
	transport *http.Transport
	store     *sqlite.Store // nil in memory
}

func newRouse(mode string) *rousePeer { return &rousePeer{mode: mode} }

func (p *rousePeer) Prepare(t workload.Task) error {
	p.transport = workload.Transport()
	m, err := openai.New(openai.Config{BaseURL: t.BaseURL, APIKey: "sk-bench", Model: t.Model.String(), Transport: p.transport})
	if err != nil {
		return err
	}
	cfg := agent.Config{Model: m, System: workload.SystemPrompt, MaxRounds: t.Model.Rounds + 1}
	if t.Model.Rounds > 0 {
		if cfg.Tools, err = tools(t.Tools); err != nil {
			return err
		}
	}
	if p.agent, err = agent.New(cfg); err != nil {
		return err
	}
	if p.mode == modeSQLite {
		p.store, err = sqlite.Open(context.Background(), sqlite.Config{Dir: t.Dir})
	}
	return err
}

func tools(t *workload.Tools) (*tool.Set, error) {
	weather, err := tool.Func(tool.FuncConfig{Name: workload.WeatherName, Description: workload.WeatherDescription, Effect: tool.ReadOnly},
		func(_ context.Context, in workload.WeatherIn) (workload.WeatherOut, error) { return t.Weather(in), nil })
	if err != nil {
		return nil, err
	}
	add, err := tool.Func(tool.FuncConfig{Name: workload.AddName, Description: workload.AddDescription, Effect: tool.ReadOnly},
		func(_ context.Context, in workload.AddIn) (workload.AddOut, error) { return t.Add(in), nil })
	if err != nil {
		return nil, err
	}
	return tool.NewSet(weather, add)
}

func (p *rousePeer) Run(ctx context.Context, _ int) (res workload.Result, err error) {
	opt := run.Options{}
	if p.store != nil {
		opt.Journal, opt.Owner = p.store, p.store.Node()
	}
	r, err := p.agent.Start(ctx, opt, rouse.Text(workload.UserPrompt))
	if err != nil {
		return res, err
	}
	for ev, err := range r.Events(ctx) {
		if err != nil {
			return res, err
		}
		switch ev.Type {
		case rouse.EventText:
			res.TextBytes += len(ev.Delta.Text)
		case rouse.EventToolFinished:
			if strings.Contains(string(ev.Data), `"code":`) {
				return res, fmt.Errorf("a call failed: %s", ev.Data)
			}
			res.ToolCalls++
		}
	}
	_, err = r.Wait(ctx)
	return res, err
}

func (p *rousePeer) Close() {
	p.transport.CloseIdleConnections()
	if p.store != nil {
		// What was measured is done; the directory is removed with everything in it.
		_ = p.store.Close()
	}
}
