package server

import (
	"time"

	"github.com/cleavekv/cleave/internal/ops/oplog"
	"github.com/cleavekv/cleave/internal/server/acl"
	"github.com/cleavekv/cleave/internal/server/pubsub"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/settings"
)

func init() {
	registerHandlers(map[string]func(*call){
		"config|resetstat": func(t *call) {
			t.s.stats.Reset(t.s.countExpired())
			t.s.resetSlotCounters(t.s.slotCounters.Load() != nil)
			t.out.OK()
		},
		"config|rewrite": func(t *call) {
			t.out.Fail(redis.Error("ERR CONFIG REWRITE is not served: the file of settings is the operator's, and users are kept in the store"))
		},
		"config|help": newHelpHandler("CONFIG", "GET <pattern>", "    Return parameters matching the glob-like <pattern> and their values.",
			"SET <directive> <value>", "    Set the configuration <directive> to <value>.", "RESETSTAT", "    Reset statistics reported by the INFO command."),
	})
	registerBlockingHandlers(map[string]func(*call){"config|get": handleConfigGet, "config|set": handleConfigSet})
}

func handleConfigGet(t *call) {
	if err := checkNames("pattern", t.Args[2:]...); err != nil {
		t.out.Fail(err)
		return
	}
	names, values := t.s.config.MatchPatterns(t.Args[2:])
	t.out.Map(len(names))
	for _, name := range names {
		t.out.Text(name)
		t.out.Text(values[name])
	}
}

// handleConfigSet changes settings, all or none.
func handleConfigSet(t *call) {
	args := t.Args[2:]
	if len(args)%2 != 0 {
		if len(args) == 1 {
			t.out.Fail(redis.NewArityError("config|set"))
		} else {
			t.out.Fail(redis.ErrSyntax)
		}
		return
	}
	t.s.usersMu.Lock()
	defer t.s.usersMu.Unlock()
	if err := t.s.config.Set(args); err != nil {
		t.out.Fail(err)
		return
	}
	t.s.applySettings(args)
	t.logSettings(args)
	for i := 0; i < len(args); i += 2 {
		if redis.IsKeyword(args[i], "REQUIREPASS") {
			if err := t.s.keepUser(t.ctx, acl.DefaultUser); err != nil {
				t.out.Fail(err)
				return
			}
			t.s.unsavedPassword = ""
		}
	}
	t.out.OK()
}

// applySettings does what follows from settings that were changed. The caller holds keeping.
func (s *Server) applySettings(args [][]byte) {
	for i := 0; i < len(args); i += 2 {
		if redis.IsKeyword(args[i], "REQUIREPASS") {
			rules := []string{"resetpass", "nopass"}
			if len(args[i+1]) > 0 {
				rules = []string{"resetpass", ">" + string(args[i+1])}
			}
			_ = s.users.Set(acl.DefaultUser, rules...) // they are right
			s.unsavedPassword = string(args[i+1])
		}
	}
	if limits, err := settings.ParseBufferLimits(s.config.Get("client-output-buffer-limit"), *s.clients.OutputLimits.Load()); err == nil { // it is right: see set
		s.clients.OutputLimits.Store(&limits)
	}
	s.clients.MaxBytes.Store(s.config.Number("maxmemory-clients"))
	s.memory.limitBytes.Store(s.config.Number("maxmemory"))
	s.updateMemory()
	level, _ := oplog.ParseLevel(s.config.Get("loglevel")) // it is one: see read
	s.opts.LogLevel.Set(level)
	classes, _ := pubsub.ParseClasses(s.config.Get("notify-keyspace-events")) // it is right: see read
	s.notifier.SetClasses(classes)
	s.stats.TracksLatency.Store(s.config.Get("latency-tracking") == "yes")
	if on := s.config.Get("cluster-slot-stats-enabled") == "yes"; on != (s.slotCounters.Load() != nil) {
		s.resetSlotCounters(on)
	}
	s.latency.SetThreshold(time.Duration(s.config.Number("latency-monitor-threshold")) * time.Millisecond)
	s.slowlog.SetLimits(time.Duration(s.config.Number("slowlog-log-slower-than"))*time.Microsecond, int(s.config.Number("slowlog-max-len")))
}
