package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/config"
	"github.com/cleavekv/cleave/internal/server/redis"
)

// listSettings returns every setting of the table, whether or not it can change while the server runs.
func (a *Admin) listSettings(_ context.Context, q *query) (api.Page[api.Setting], error) {
	started, latest := a.o.Config()
	all := []api.Setting{}
	for _, s := range config.Settings() {
		all = append(all, a.toSetting(&s, started, latest))
	}
	return cutPage(q, all, byIndex[api.Setting], false)
}

// toSetting describes a setting: a server was started with one configuration, and the latest is what it
// would be started with as far as it knows.
func (a *Admin) toSetting(s *config.Setting, started, latest *config.Config) api.Setting {
	t := api.Setting{
		Name: s.Name, Value: started.Text(s.Name), Meaning: strings.ReplaceAll(s.Help, "\n", " "), Unit: s.Unit, Live: s.Live,
		Source: started.Source(s.Name).String(), From: started.Location(s.Name),
	}
	switch {
	case s.Live:
		t.Value, t.Source, t.From = a.o.Server.Setting(s.Name), latest.Source(s.Name).String(), latest.Location(s.Name)
		if t.Value != latest.Text(s.Name) {
			t.Source, t.From = api.SourceRuntime, "" // by a client, or by an operator
		}
	case latest.Text(s.Name) != t.Value:
		t.Pending = latest.Text(s.Name)
	}
	if t.Source == config.FromDefault.String() {
		t.From = ""
	}
	if s.Secret && t.Value != "" {
		t.Value = api.HiddenValue
	}
	if u, err := url.Parse(t.Value); s.Kind == config.URL && err == nil {
		t.Value = u.Redacted()
	}
	return t
}

func (a *Admin) planSetConfig(_ context.Context, _ *query, r api.SetConfig) (*plannedChange, error) {
	if len(r.Settings) == 0 {
		return nil, newInvalidError("no setting is given", "give settings: a name and a value each")
	}
	started, latest := a.o.Config()
	plan, parsed := api.Plan{Steps: []string{}}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		all := config.Settings()
		i := slices.IndexFunc(all, func(s config.Setting) bool { return s.Name == name })
		if i < 0 {
			return nil, newInvalidError("there is no setting "+strconv.Quote(name), "list the settings")
		}
		s := &all[i]
		if s.Secret {
			return nil, newRefusedError("setting "+name+" is a secret, and plans are in the audit log", "set it in the configuration, or with CONFIG SET")
		}
		value, err := s.Parse(r.Settings[name])
		if err != nil {
			return nil, newInvalidError(name+" is "+strconv.Quote(r.Settings[name]), err.Error())
		}
		was := a.toSetting(s, started, latest).Value
		if !s.Live && value != was {
			return nil, newRefusedError("setting "+name+" cannot be changed while the server runs", "change its flag or the configuration, and start the server again")
		}
		if s.Live {
			parsed[name] = value
		}
		plan.Steps = append(plan.Steps, fmt.Sprintf("%s: %q becomes %q", name, was, value))
	}
	plan.Summary = "set " + strings.Join(plan.Steps, ", ")
	return &plannedChange{plan: plan, apply: func(context.Context) (*api.Job, error) {
		err := a.o.Server.Configure(parsed)
		var refusal redis.Error
		if errors.As(err, &refusal) {
			return nil, newInvalidError(strings.TrimPrefix(string(refusal), "ERR "), "")
		}
		for _, name := range slices.Sorted(maps.Keys(parsed)) {
			if err == nil {
				a.o.Log.Info("setting changed", "by", "HTTP API", "setting", name, "value", parsed[name])
			}
		}
		return nil, err
	}}, nil
}

func (a *Admin) listClients(_ context.Context, q *query) (api.Page[api.Connection], error) {
	return cutPage(q, a.o.Server.Connections(), func(_ int, c api.Connection) uint64 { return c.ID }, false)
}

func (a *Admin) listSlowlog(_ context.Context, q *query) (api.Page[api.Slow], error) {
	return cutPage(q, a.o.Server.Slowlog(), func(_ int, s api.Slow) uint64 { return uint64(s.ID) }, true)
}
