package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/redis"
)

// knobs are the settings that operators have, under the names that Redis has for them.
// Others of CONFIG have no effect here, or are secrets.
var knobs = []api.Setting{
	{Name: "appendfsync", Meaning: "when a write is acknowledged: always, everysec or no"},
	{Name: "maxclients", Meaning: "how many Redis clients there may be", Unit: "connections"},
	{Name: "maxmemory", Meaning: "how much a store in memory may hold; 0 is no bound", Unit: "bytes", Live: true},
	{Name: "protected-mode", Meaning: "without a password, only clients on this machine are served: yes or no", Live: true},
	{Name: "slowlog-log-slower-than", Meaning: "from how long on a request is noted; negative for never", Unit: "microseconds", Live: true},
	{Name: "slowlog-max-len", Meaning: "how many slow requests are kept", Unit: "requests", Live: true},
	{Name: "timeout", Meaning: "after how long a client that says nothing is disconnected; 0 for never", Unit: "seconds", Live: true},
}

func (a *Admin) settings(_ context.Context, q *query) (api.Page[api.Setting], error) {
	all := slices.Clone(knobs)
	for i := range all {
		all[i].Value = a.o.Server.Setting(all[i].Name)
	}
	return page(q, all, inOrder[api.Setting], false)
}

func (a *Admin) setConfig(_ context.Context, _ *query, r api.SetConfig) (*change, error) {
	if len(r.Settings) == 0 {
		return nil, invalid("no setting is given", "give settings: a name and a value each")
	}
	plan := api.Plan{Steps: []string{}}
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		i := slices.IndexFunc(knobs, func(s api.Setting) bool { return s.Name == name })
		if i < 0 {
			return nil, invalid("there is no setting "+strconv.Quote(name), "list the settings")
		}
		value, was := r.Settings[name], a.o.Server.Setting(name)
		if !knobs[i].Live && value != was {
			return nil, refused("setting "+name+" cannot be changed while the server runs", "change its flag or the configuration, and start the server again")
		}
		if err := checkSetting(name, knobs[i].Unit, value); err != nil {
			return nil, err
		}
		plan.Steps = append(plan.Steps, fmt.Sprintf("%s: %q becomes %q", name, was, value))
	}
	plan.Summary = "set " + strings.Join(plan.Steps, ", ")
	return &change{plan: plan, do: func(context.Context) (*api.Job, error) {
		err := a.o.Server.Configure(r.Settings)
		var refusal redis.Error
		if errors.As(err, &refusal) {
			return nil, invalid(strings.TrimPrefix(string(refusal), "ERR "), "")
		}
		return nil, err
	}}, nil
}

// bytesForm is how Redis writes a number of bytes.
var bytesForm = regexp.MustCompile(`^[0-9]{1,18}([kKmMgG]?[bB]|[kKmMgG])?$`)

// checkSetting refuses values that are none. It is asked before the plan is told, so that
// what is planned can be done.
func checkSetting(name, unit, value string) error {
	if name == "protected-mode" && value != "yes" && value != "no" {
		return invalid("protected-mode is "+strconv.Quote(value), "give yes or no")
	}
	if unit == "" {
		return nil
	}
	if unit == "bytes" {
		if !bytesForm.MatchString(value) {
			return invalid(name+" is "+strconv.Quote(value), "give a number of bytes, such as 1048576, 64mb or 2gb")
		}
		return nil
	}
	if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < 0 && name != "slowlog-log-slower-than" {
		return invalid(name+" is "+strconv.Quote(value), "give a number of "+unit)
	}
	return nil
}
