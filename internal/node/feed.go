package node

import "github.com/cleavekv/cleave/partition"

// Committed returns a channel that is closed when something is committed after
// the call.
func (n *Node) Committed() <-chan struct{} { return n.feeds.listen() }

// KeyspaceByID returns the keyspace of an id, nil if there is none or if it is
// the system's own.
func (n *Node) KeyspaceByID(id partition.KeyspaceID) *Space {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.byID[id]
}
