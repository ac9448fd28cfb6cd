package route

import "errors"

// ErrNoNodes means a router was asked for with no nodes: name at least one.
var ErrNoNodes = errors.New("route: no nodes")

// ErrDuplicateName means two nodes share a name: rename one, since names
// identify nodes.
var ErrDuplicateName = errors.New("route: duplicate node name")

// ErrWeight means a node's weight is not what Node.Weight allows, or not one
// that this kind of router can honour: the text says what it may be.
var ErrWeight = errors.New("route: bad weight")

// ErrName means a node has an empty name: give it one that no other has.
var ErrName = errors.New("route: empty node name")

// ErrUnknownNode means a node to remove is not there: remove one of Nodes. The
// text lists their names if they are few, and else says how many there are.
var ErrUnknownNode = errors.New("route: unknown node")

// ErrNotRemovable means this kind of router cannot lose that node: the doc of
// each type says what it allows.
var ErrNotRemovable = errors.New("route: node cannot be removed here")

// ErrNodeCount means a router cannot have that number of nodes: the doc of
// its type says which it can.
var ErrNodeCount = errors.New("route: impossible number of nodes")

// ErrOptions means an option has a value that its doc excludes: the text says
// which one, and what it may be.
var ErrOptions = errors.New("route: bad options")

// ErrTooLarge means a table would outgrow its bound: ask for fewer nodes,
// smaller weights or a smaller table.
var ErrTooLarge = errors.New("route: too large")

// ErrNameHash means two names have the same 64-bit hash, so one of the nodes
// would own nothing: rename one.
var ErrNameHash = errors.New("route: names hash alike")
