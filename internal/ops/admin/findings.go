package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/internal/reshard/balancer"
	"github.com/cleavekv/cleave/internal/reshard/classify"
	"github.com/cleavekv/cleave/partition"
)

// toHot are findings as clients see them, those of which most is asked first, with what is done about each. Cold shards are
// left out: most of a small store are.
func (a *Admin) toHot(found []classify.Finding) []api.Hot {
	all := []api.Hot{}
	throttles := a.node.Throttles().List()
	for i := range found {
		if f := &found[i]; f.Class != classify.Cold {
			all = append(all, a.toOneHot(f, throttles))
		}
	}
	rates := a.node.LoadRates()
	opsOf := func(h *api.Hot) float64 { r := rates[cleave.ShardID(h.Shard)]; return r.Ops() }
	slices.SortStableFunc(all, func(x, y api.Hot) int { return cmp.Compare(opsOf(&y), opsOf(&x)) })
	return all
}

func (a *Admin) toOneHot(f *classify.Finding, throttles []node.ShardThrottle) api.Hot {
	b := a.balancer
	one := api.Hot{Class: f.Class.String(), Shard: uint64(f.Shard), Group: uint64(f.Group), Evidence: f.Evidence, Remedy: b.Remedy(f)}
	if s, ok := a.node.Map().Shard(f.Shard); ok {
		one.Keyspace = a.decodePosition(s.Span.Start).keyspace
	}
	if f.Key != nil {
		one.Key = api.KeyOrNil([]byte(b.KeyText(f.Shard, f.Key)))
		if f.Class == classify.HotKey {
			one.Heat = a.heatOf(partition.Position(f.Key))
		}
	}
	if f.Shard == 0 {
		return one
	}
	if all := b.Decisions(f.Shard, maxListedDecisions); len(all) > 0 {
		// The newest is not always the last: to leave a shard as it is, is decided again and again.
		last := slices.MaxFunc(all, func(x, y balancer.ReliefDecision) int { return cmp.Compare(x.LastMS, y.LastMS) })
		d := toDecision(&last)
		one.Decision = &d
	}
	if accepted, ok := b.Acceptance(f.Shard); ok {
		is := toAcceptance(&accepted)
		one.Accepted = &is
	}
	for _, t := range throttles {
		if t.Shard == f.Shard {
			is := toThrottle(&t)
			one.Throttle = &is
		}
	}
	return one
}

func toThrottle(t *node.ShardThrottle) api.ShardThrottle {
	return api.ShardThrottle{Shard: uint64(t.Shard), WritesPerSecond: t.WritesPerSecond, Reason: t.Reason, Until: t.Until.UTC(), Refused: t.Refused}
}

// describeHot is a finding in a sentence: what is hot, how much it is asked, and by whom.
func describeHot(h *api.Hot) string {
	at := fmt.Sprintf("shard %d", h.Shard)
	if h.Keyspace != "" {
		at = h.Keyspace + ", " + at
	}
	var b strings.Builder
	switch {
	case h.Shard == 0:
		fmt.Fprintf(&b, "the machine is saturated: %s", h.Evidence)
	case h.Heat != nil:
		fmt.Fprintf(&b, "hot key `%s` (%s): %s op/s, %.0f %% of all", h.Key, at, output.Rate(h.Heat.PerSecond), 100*h.Heat.ShareOfAll)
		if by := formatSenders(h.Heat); by != "" {
			b.WriteString(", " + by)
		}
	case h.Key != nil:
		fmt.Fprintf(&b, "%s `%s` (%s): %s", h.Class, h.Key, at, h.Evidence)
	default:
		fmt.Fprintf(&b, "%s (%s): %s", h.Class, at, h.Evidence)
	}
	return b.String()
}

// formatSenders is the command that asks for a key most, and the client.
func formatSenders(h *api.HotKey) string {
	text := ""
	if len(h.Commands) > 0 {
		text = h.Commands[0].Name
	}
	if len(h.Clients) > 0 {
		text += " by " + h.Clients[0].Name
	}
	return strings.TrimSpace(text)
}

// describeRelief is what is done about a finding.
func describeRelief(h *api.Hot, now time.Time) string {
	switch d := h.Decision; {
	case h.Accepted != nil:
		return fmt.Sprintf("accepted until %s: %s", h.Accepted.Until.Local().Format(time.DateTime), h.Accepted.Reason)
	case h.Throttle != nil:
		return fmt.Sprintf("its writers are held up at %s writes a second", output.Rate(h.Throttle.WritesPerSecond))
	case d == nil:
		return "nothing was decided yet"
	case d.Change == "keep":
		return "left as it is: " + d.Reason
	case d.Change == api.EventThrottle:
		return fmt.Sprintf("its writers were held up until %s ago: %s", now.Sub(d.Last).Round(time.Second), d.Reason)
	default:
		return fmt.Sprintf("last %s %s ago, %s: %s", d.Change, now.Sub(d.Last).Round(time.Second), d.Outcome, d.Reason)
	}
}

// explainHot is the command that shows all about a finding.
func explainHot(h *api.Hot) string {
	switch {
	case h.Shard == 0:
		return "cleave top"
	case h.Heat != nil:
		command := "cleave explain key " + output.ShellWord(h.Key.String())
		if h.Keyspace != node.DefaultKeyspace {
			command += " --keyspace " + output.ShellWord(h.Keyspace)
		}
		return command
	}
	return "cleave explain shard " + strconv.FormatUint(h.Shard, 10)
}

// checkHot finds shards that are hot. One that is relieved, accepted or left as it is leaves the verdict as it is; one whose
// writers are held up, and a machine without time, do not.
func (a *Admin) checkHot(s *api.Status, find func(severity, fix, format string, args ...any)) {
	if a.balancer == nil {
		return
	}
	s.Hot = a.toHot(a.balancer.Findings())
	for i := range s.Hot {
		h := &s.Hot[i]
		severity := api.Notice
		if h.Throttle != nil || h.Shard == 0 {
			severity = api.Degraded
		}
		message := describeHot(h)
		if h.Shard != 0 {
			message += "; " + describeRelief(h, a.o.Now())
		}
		find(severity, explainHot(h), "%s", message)
	}
}
