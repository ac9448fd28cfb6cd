package server

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/oplog"
	"github.com/cleavekv/cleave/internal/server/redis"
)

// Connections returns the connections of clients in the order in which they came.
func (s *Server) Connections() []api.Connection {
	now, all := s.opts.Now(), s.clients.list()
	list := make([]api.Connection, 0, len(all))
	for _, c := range all {
		a, subs := c.status.loadInfo(), s.hub.CountSubscriptions(c)
		one := api.Connection{
			ID: c.id, Addr: c.remoteAddr, Name: a.name, User: a.user, Keyspace: a.keyspace, AgeSeconds: max(0, now.Sub(c.connectedAt).Seconds()),
			Library: a.library, LibraryVersion: a.libraryVersion, Protocol: int(c.status.protocol.Load()),
		}
		// One that has asked for nothing yet has been idle since it came.
		since := max(c.status.lastRequestMS.Load(), c.connectedAt.UnixMilli())
		one.IdleSeconds = float64(max(0, now.UnixMilli()-since)) / 1000
		if last := c.status.lastCommand.Load(); last != nil {
			one.Command = last.Name
		}
		for _, n := range subs {
			one.Subscriptions += n
		}
		list = append(list, one)
	}
	return list
}

// Slowlog returns the requests that took long, the newest first, without their values.
func (s *Server) Slowlog() []api.Slow {
	entries := s.slowlog.listNewest(-1)
	list := make([]api.Slow, 0, len(entries))
	for i := range entries {
		list = append(list, entries[i].toAPI())
	}
	return list
}

func (e *slowlogEntry) toAPI() api.Slow {
	keys := e.keys
	if keys == nil {
		keys = []api.Key{}
	}
	return api.Slow{
		ID: e.id, Time: e.at, Seconds: e.took.Seconds(), Command: e.command, Keys: keys, Arguments: e.argCount,
		Shard: uint64(e.location.shard), Group: uint64(e.location.group), Client: e.from, Name: e.name,
	}
}

// Counts are what a server has counted since it was made, or since CONFIG RESETSTAT.
type Counts struct {
	// Clients are connected now, of at most MaxClients.
	Clients, MaxClients int
	// Connections came, and Refused were turned away at once.
	Connections, Refused uint64
	// TooLarge are requests that were refused for their size.
	TooLarge uint64
	// Commands are those that were asked for at all, by name.
	Commands []CommandCounts
	// Errors are answers by the word that they begin with. Clients choose some of the
	// words.
	Errors map[string]uint64
}

// CommandCounts are of one command: calls, and those refused before they began.
type CommandCounts struct {
	Name            string
	Calls, Rejected uint64
}

// Counts returns what the server has counted.
func (s *Server) Counts() Counts {
	c := Counts{Clients: s.clients.len(), MaxClients: s.opts.Clients, Connections: s.stats.connections.Load(), Refused: s.stats.refusedClients.Load(), TooLarge: s.stats.largeRequests.Load()}
	for _, spec := range redis.AllSpecs() {
		n := &s.stats.commands[spec.Index]
		if calls, rejected := n.calls.Load(), n.rejected.Load(); calls+rejected > 0 {
			c.Commands = append(c.Commands, CommandCounts{spec.Name, calls, rejected})
		}
	}
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	c.Errors = maps.Clone(s.stats.errors)
	return c
}

// Memory returns how much of the store is in memory, and how much may be: 0 for no limit.
func (s *Server) Memory() (used, limit int64) {
	if s.opts.Memory {
		limit = s.memory.limitBytes.Load()
	}
	return s.measureMemory().inMemoryBytes(s.opts.Memory), limit
}

// Setting returns what CONFIG GET tells of one setting.
func (s *Server) Setting(name string) string { return s.config.get(name) }

// Configure changes settings as CONFIG SET does, all or none. Those that are as they were
// stay: an empty password in a file does not take away one that was set by ACL SETUSER. One
// that is given is not kept over a restart: whoever gives it gives it again.
func (s *Server) Configure(settings map[string]string) error {
	s.usersMu.Lock()
	defer s.usersMu.Unlock()
	var args [][]byte
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if settings[name] != s.config.get(name) {
			args = append(args, []byte(name), []byte(settings[name]))
		}
	}
	if err := s.config.set(args); err != nil {
		return err
	}
	s.applySettings(args)
	return nil
}

// reportRequest tells whoever wants to know about a request. It costs nothing if nobody does.
func (s *Server) reportRequest(kind string, requests int, e func() slowlogEntry) {
	if s.opts.Observe == nil {
		return
	}
	entry := e()
	s.opts.Observe(api.ObservedRequest{Slow: entry.toAPI(), Kind: kind, Requests: requests})
}

// runReported runs a transaction, and tells of it unless it is told of as one that took long.
func (s *Server) runReported(u *unit, run func()) {
	if s.opts.Observe == nil {
		run()
		return
	}
	began := time.Now()
	run()
	if took := time.Since(began); !s.slowlog.isSlow(took) {
		s.reportRequest("transaction", len(u.items), func() slowlogEntry { return u.c.newSlowlogEntry(u.items[0].Args, took, location{}) })
	}
}

// clientLog tells the log what an operator should know about clients. They can cause it as often as
// they like, so it is bounded by kind: logBurst lines in logWindow, and the rest is counted.
type clientLog struct {
	*slog.Logger
	limiter *oplog.Limiter
}

const (
	logBurst  = 5
	logWindow = 10 * time.Second
)

func newClientLog(log *slog.Logger) clientLog {
	limit := oplog.NewLimiter(log.Handler(), logBurst, logWindow)
	return clientLog{slog.New(limit), limit}
}

// logRefused logs a connection that is not served. The reason is a constant.
func (e *clientLog) logRefused(reason, from string) {
	e.Warn("client refused", "reason", reason, "addr", from)
}

// logClosed logs a connection that the server closes. The reason is a constant.
func (e *clientLog) logClosed(c *client, reason string, more ...any) {
	e.Warn("client closed", append([]any{"reason", reason, "id", c.id, "addr", c.remoteAddr, "user", c.status.loadInfo().user}, more...)...)
}

// logConnection logs that a client is there, or has left, for who looks closely.
func (e *clientLog) logConnection(message string, c *client) {
	if e.Enabled(context.Background(), oplog.LevelVerbose) { // most often it is not
		c.s.opts.Log.Log(context.Background(), oplog.LevelVerbose, message, "id", c.id, "addr", c.remoteAddr)
	}
}

// isSecretSetting reports whether the value of a setting must not be logged.
func isSecretSetting(name string) bool {
	return strings.Contains(name, "pass") || strings.Contains(name, "auth")
}

// logSettings logs settings that a client has changed.
func (t *call) logSettings(args [][]byte) {
	log := t.s.opts.Log.With("by", "CONFIG SET", "addr", t.c.remoteAddr, "user", t.c.status.loadInfo().user)
	for i := 0; i < len(args); i += 2 {
		name := strings.ToLower(string(args[i]))
		value := t.s.config.get(name)
		if isSecretSetting(name) {
			value = "(hidden)"
		}
		log.Info("setting changed", "setting", name, "value", value)
	}
}
