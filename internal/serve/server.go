package serve

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/resp"
)

// Server serves clients of a node.
type Server struct {
	node  *node.Node
	space *node.Space
	ids   atomic.Uint64
	// ctx ends when the server is closed, and running waits for what was begun.
	ctx     context.Context
	running sync.WaitGroup
}

// New makes a server.
func New(n *node.Node) (*Server, error) {
	space, err := n.Keyspace(node.DefaultName)
	return &Server{node: n, space: space, ctx: context.Background()}, err
}

// Serve serves the connections of a listener until it is closed.
func (s *Server) Serve(l *net.TCPListener) error { return s.serve(l) }

func (s *Server) newClient(t transport) *client {
	c := &client{id: s.ids.Add(1), space: s.space, conn: t}
	c.out.Version = resp.RESP2
	return c
}

// usual are the limits of clients who may do something.
var usual = resp.Limits{Args: 1 << 20, Bulk: command.MaxValueBytes, Total: 2 * command.MaxTxnBytes}

func (s *Server) limits(*client) resp.Limits { return usual }
