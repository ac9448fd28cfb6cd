package server

import (
	"maps"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/settings"
)

// Connections returns the connections of clients in the order in which they came.
func (s *Server) Connections() []api.Connection {
	now, all := s.opts.Now(), s.clients.List()
	list := make([]api.Connection, 0, len(all))
	for _, c := range all {
		a, subs := c.Status.LoadInfo(), s.hub.CountSubscriptions(c)
		one := api.Connection{
			ID: c.ID, Addr: c.RemoteAddr, Name: a.Name, User: a.User, Keyspace: a.Keyspace, AgeSeconds: max(0, now.Sub(c.ConnectedAt).Seconds()),
			Library: a.Library, LibraryVersion: a.LibraryVersion, Protocol: int(c.Status.Protocol.Load()),
		}
		// One that has asked for nothing yet has been idle since it came.
		since := max(c.Status.LastRequestMS.Load(), c.ConnectedAt.UnixMilli())
		one.IdleSeconds = float64(max(0, now.UnixMilli()-since)) / 1000
		if last := c.Status.LastCommand.Load(); last != nil {
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
	entries := s.slowlog.ListNewest(-1)
	list := make([]api.Slow, 0, len(entries))
	for i := range entries {
		list = append(list, entries[i].ToAPI())
	}
	return list
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
	c := Counts{Clients: s.clients.Len(), MaxClients: s.opts.Clients, Connections: s.stats.Connections.Load(), Refused: s.stats.RefusedClients.Load(), TooLarge: s.stats.LargeRequests.Load()}
	for _, spec := range redis.AllSpecs() {
		if n := s.stats.CountsOf(spec); n.Calls+n.Rejected > 0 {
			c.Commands = append(c.Commands, CommandCounts{spec.Name, n.Calls, n.Rejected})
		}
	}
	c.Errors = s.stats.ErrorCounts()
	return c
}

// Memory returns how much of the store is in memory, and how much may be: 0 for no limit.
func (s *Server) Memory() (used, limit int64) {
	if s.opts.Memory {
		limit = s.memory.limitBytes.Load()
	}
	return s.measureMemory().inMemoryBytes(s.opts.Memory), limit
}

// Setting returns one setting as CONFIG GET does.
func (s *Server) Setting(name string) string { return s.config.Get(name) }

// Configure changes settings as CONFIG SET does, all or none. Those that are as they were
// stay: an empty password in a file does not remove one that was set by ACL SETUSER. One
// that is given is not kept over a restart: the caller gives it again.
func (s *Server) Configure(settings map[string]string) error {
	s.usersMu.Lock()
	defer s.usersMu.Unlock()
	var args [][]byte
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if settings[name] != s.config.Get(name) {
			args = append(args, []byte(name), []byte(settings[name]))
		}
	}
	if err := s.config.Set(args); err != nil {
		return err
	}
	s.applySettings(args)
	return nil
}

// logSettings logs settings that a client has changed.
func (t *call) logSettings(args [][]byte) {
	log := t.s.opts.Log.With("by", "CONFIG SET", "addr", t.c.RemoteAddr, "user", t.c.Status.LoadInfo().User)
	for i := 0; i < len(args); i += 2 {
		name := strings.ToLower(string(args[i]))
		value := t.s.config.Get(name)
		if settings.IsSecret(name) {
			value = "(hidden)"
		}
		log.Info("setting changed", "setting", name, "value", value)
	}
}
