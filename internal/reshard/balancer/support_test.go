package balancer_test

import (
	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/node"
)

func nodeOf(db *cleave.DB) *node.Node {
	var e *engine.DB
	db.Engine(&e)
	return e.Node()
}
