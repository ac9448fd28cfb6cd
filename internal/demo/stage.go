package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/admin"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/patterns/spread"
	"github.com/cleavekv/cleave/internal/server"
)

// maxQueuedCommands is how many commands may wait for a group, as of cleave serve.
const maxQueuedCommands = 1 << 16

// stage is a server, the clients that ask it, and what a story has shown so far.
type stage struct {
	*script
	ctx  context.Context
	pace Pace

	dir       string // of the server alone
	db        *cleave.DB
	server    *server.Server
	admin     *admin.Admin
	ended     chan error // of what serves, twice
	redisAddr string
	httpAddr  string
	operator  *api.Client

	clients []*clients
	result  Result
}

// openStage starts a server in a directory of its own, on ports that are free.
func openStage(ctx context.Context, t *script, p Pace) (_ *stage, err error) {
	st := &stage{script: t, ctx: ctx, pace: p, ended: make(chan error, 2)}
	defer func() {
		if err != nil {
			err = errors.Join(err, st.close())
		}
	}()
	if st.dir, err = os.MkdirTemp("", "cleave-demo-"); err != nil {
		return nil, err
	}
	data := filepath.Join(st.dir, "data")
	st.db, err = cleave.Open(data, cleave.Options{QueueLimit: maxQueuedCommands, Preload: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	clients, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	operators, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		clients.Close()
		return nil, err
	}
	st.redisAddr, st.httpAddr = clients.Addr().String(), operators.Addr().String()
	st.server = server.New(st.db, server.Options{Dir: data, Fsync: cleave.Always.String(), Version: "demo"})
	st.admin, err = admin.New(admin.Options{DB: st.db, Server: st.server, Listener: operators, Data: data, Version: "demo", Durability: cleave.Always.String()})
	if err != nil {
		clients.Close()
		operators.Close()
		return nil, err
	}
	go func() { st.ended <- st.server.Serve(clients) }()
	go func() { st.ended <- st.admin.Serve() }()
	token, err := api.ReadToken(filepath.Join(data, api.TokenFile))
	if err != nil {
		return nil, err
	}
	st.operator = &api.Client{Addr: st.httpAddr, Token: token, Actor: "demo"}
	return st, nil
}

// close ends the clients and the server, and removes its directory.
func (st *stage) close() error {
	err := st.stopClients()
	if st.server != nil {
		st.server.Close()
	}
	if st.admin != nil {
		err = errors.Join(err, st.admin.Close())
		<-st.ended
		<-st.ended
	}
	if st.db != nil {
		err = errors.Join(err, st.db.Close())
	}
	if st.dir != "" {
		err = errors.Join(err, os.RemoveAll(st.dir))
	}
	return err
}

// introduce prints where the server is, and what can be watched meanwhile.
func (st *stage) introduce() {
	st.print(wrapIndented(fmt.Sprintf("It takes about %.0f seconds. Ctrl-C ends it, and nothing of it is left.", st.story.Takes.Seconds()), "", st.width))
	st.print("\n")
	st.line("Redis clients  %s", st.redisAddr)
	st.line("watch it       cleave top --addr %s", st.httpAddr)
}

// conclude prints where to look further.
func (st *stage) conclude(keep bool) {
	if !keep {
		st.print("\n" + wrapIndented("The server is gone. --keep leaves it running, to look at it with cleave hotkeys, heatmap, plan and decision list.", "", st.width))
		return
	}
	st.print("\n" + wrapIndented("The server goes on without clients until Ctrl-C. Its data is in "+st.dir+" until then.", "", st.width))
	for _, command := range []string{"heatmap", "hotkeys", "decision list", "plan", "map"} {
		st.line("cleave %s --addr %s", command, st.httpAddr)
	}
	st.line("redis-cli -h 127.0.0.1 -p %s", st.redisAddr[len("127.0.0.1:"):])
}

// act asks the server for an action as an operator does, and waits for its job.
func (st *stage) act(path string, request any) error {
	a, err := st.operator.Post(st.ctx, path, request, false)
	if errors.Is(err, &api.Error{Code: api.CodeNoChange}) {
		return nil
	}
	if err != nil || a.Job == nil {
		return err
	}
	j, err := st.operator.WaitJob(st.ctx, a.Job.ID, jobPollInterval, nil)
	if err == nil && j.State != api.JobDone {
		err = fmt.Errorf("job %s (%s) was not done: %s", j.ID, j.Kind, j.Why)
	}
	return err
}

// removeCaps removes all caps.
func (st *stage) removeCaps() error {
	caps, err := st.operator.Caps(st.ctx)
	if err != nil {
		return err
	}
	for _, c := range caps {
		if err := st.act(api.PathRemoveCap, api.RemoveCap{ID: c.ID}); err != nil {
			return err
		}
	}
	return nil
}

// setRelief makes the server relieve hot shards by itself, or only find them.
func (st *stage) setRelief(mode string) error {
	return st.act(api.PathSetKnobs, api.SetKnobs{Values: map[string]string{"relief": mode}})
}

// createOrdered makes a keyspace of kind range, cut at keys into shards that the groups have in turn.
func (st *stage) createOrdered(name string, cuts ...string) (*cleave.Keyspace, error) {
	ks, err := st.db.CreateKeyspace(st.ctx, cleave.KeyspaceOptions{Name: name, Kind: cleave.Range})
	if err != nil {
		return nil, err
	}
	starts := [][]byte{{}}
	for _, c := range cuts {
		starts = append(starts, []byte(c))
	}
	places, err := spread.InTurn(st.db, starts)
	if err != nil {
		return nil, err
	}
	return ks, spread.Apply(st.ctx, st.db, ks, starts[1:], places)
}
