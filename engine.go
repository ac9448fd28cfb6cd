package cleave

import "github.com/cleavekv/cleave/internal/engine"

// This file is for the packages of this module, such as the server, that execute commands which have
// no method here. Other programs have nothing to gain from it: they cannot name the engine's type.

// New returns the DB of an engine. Several DBs of an engine are the same store. It is for packages of
// this module that open an engine themselves; programs use [Open].
func New(e *engine.DB) *DB { return &DB{engine: e, node: e.Node()} }

// Engine sets *e to the engine of the DB. It is for packages of this module.
func (db *DB) Engine(e **engine.DB) { *e = db.engine }

// PublicError makes an error of the engine match its public name, as the methods of DB do. It is for
// packages of this module.
func PublicError(err error) error { return toPublicError(err) }
