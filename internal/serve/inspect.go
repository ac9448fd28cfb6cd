package serve

import (
	"maps"
	"slices"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/redis"
)

// Connections returns the connections of clients in the order in which they came.
func (s *Server) Connections() []api.Connection {
	now, all := s.opts.Now(), s.clients.all()
	list := make([]api.Connection, 0, len(all))
	for _, c := range all {
		a, subs := c.seen.get(), s.hub.counts(c)
		one := api.Connection{
			ID: c.id, Addr: c.from, Name: a.name, User: a.user, Keyspace: a.space, AgeSeconds: max(0, now.Sub(c.since).Seconds()),
			Library: a.library, LibraryVersion: a.libraryVersion, Protocol: int(c.seen.version.Load()),
		}
		// One that has asked for nothing yet has been idle since it came.
		since := max(c.seen.lastMS.Load(), c.since.UnixMilli())
		one.IdleSeconds = float64(max(0, now.UnixMilli()-since)) / 1000
		if last := c.seen.last.Load(); last != nil {
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
	entries := s.slow.get(-1)
	list := make([]api.Slow, 0, len(entries))
	for i := range entries {
		list = append(list, entries[i].told())
	}
	return list
}

func (e *slowEntry) told() api.Slow {
	keys := e.keys
	if keys == nil {
		keys = []api.Key{}
	}
	return api.Slow{
		ID: e.id, Time: e.at, Seconds: e.took.Seconds(), Command: e.command, Keys: keys, Arguments: e.words,
		Shard: uint64(e.spot.shard), Group: uint64(e.spot.group), Client: e.from, Name: e.name,
	}
}

// Counts are what a server has counted since it was made, or since CONFIG RESETSTAT.
type Counts struct {
	// Clients are connected now, of at most MaxClients.
	Clients, MaxClients int
	// Connections came, and Refused were turned away at once.
	Connections, Refused uint64
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
	c := Counts{Clients: s.clients.len(), MaxClients: s.opts.Clients, Connections: s.stats.connections.Load(), Refused: s.stats.refused.Load()}
	for _, spec := range redis.All() {
		n := &s.stats.commands[spec.Number]
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
		limit = s.memory.limit.Load()
	}
	return s.holdings().used(s.opts.Memory), limit
}

// Setting returns what CONFIG GET tells of one setting.
func (s *Server) Setting(name string) string { return s.config.get(name) }

// Configure changes settings as CONFIG SET does, all or none. Those that are as they were
// stay: an empty password in a file does not take away one that was set by ACL SETUSER. One
// that is given is not kept over a restart: whoever gives it gives it again.
func (s *Server) Configure(settings map[string]string) error {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	var args [][]byte
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if settings[name] != s.config.get(name) {
			args = append(args, []byte(name), []byte(settings[name]))
		}
	}
	if err := s.config.set(args); err != nil {
		return err
	}
	s.configured(args)
	return nil
}
