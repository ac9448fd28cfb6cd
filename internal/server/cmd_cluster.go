package server

import (
	"fmt"
	"net"
	"strconv"

	"github.com/cleavekv/cleave/hash"
)

func init() {
	registerHandlers(map[string]func(*call){
		"cluster|info": func(t *call) {
			t.out.Verbatim("cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:0\r\n" +
				"cluster_known_nodes:1\r\ncluster_size:1\r\ncluster_current_epoch:1\r\ncluster_my_epoch:1\r\n")
		},
		"cluster|nodes": func(t *call) {
			host, port := t.s.findAddress(t.c)
			t.out.Verbatim(fmt.Sprintf("%s %s:%d@%d myself,master - 0 0 1 connected 0-%d\n", t.s.runID, host, port, port+10000, hash.Slots-1))
		},
		"cluster|slots":  handleClusterSlots,
		"cluster|shards": handleClusterShards,
		"cluster|myid":   func(t *call) { t.out.Text(t.s.runID) },
		"cluster|keyslot": func(t *call) {
			t.out.Int(int64(hash.SlotOf(t.Args[2])))
		},
		"cluster|help": newHelpHandler("CLUSTER", "COUNTKEYSINSLOT <slot>", "    Return the number of keys in <slot>.", "GETKEYSINSLOT <slot> <count>", "    Return key names stored by current node in a slot.",
			"INFO", "    Return information about the cluster.", "KEYSLOT <key>", "    Return the hash slot for <key>.", "MYID", "    Return the node id.",
			"NODES", "    Return cluster configuration seen by node.",
			"SLOT-STATS (SLOTSRANGE <start> <end> | ORDERBY <metric> [LIMIT <limit>] [ASC|DESC])", "    Return what slots have and what is asked of them.", "SLOTS", "    Return information about slots range mappings.", "SHARDS", "    Return information about slot range mappings and the nodes associated with them."),
	})
}

// findAddress is where a client has reached the server.
func (s *Server) findAddress(c *client) (host string, port int) {
	host, text, err := net.SplitHostPort(c.LocalAddr)
	if err != nil {
		return "", 0
	}
	port, _ = strconv.Atoi(text)
	return host, port
}

func handleClusterSlots(t *call) {
	host, port := t.s.findAddress(t.c)
	t.out.Array(1)
	t.out.Array(3)
	t.out.Int(0)
	t.out.Int(hash.Slots - 1)
	t.out.Array(4)
	t.out.Text(host)
	t.out.Int(int64(port))
	t.out.Text(t.s.runID)
	t.out.Array(0)
}

func handleClusterShards(t *call) {
	host, port := t.s.findAddress(t.c)
	t.out.Array(1)
	t.out.Map(2)
	t.out.Text("slots")
	t.out.Array(2)
	t.out.Int(0)
	t.out.Int(hash.Slots - 1)
	t.out.Text("nodes")
	t.out.Array(1)
	t.out.Map(7)
	for _, pair := range [][2]string{{"id", t.s.runID}, {"ip", host}, {"endpoint", host}, {"role", "master"}, {"health", "online"}} {
		t.out.Text(pair[0])
		t.out.Text(pair[1])
	}
	t.out.Text("port")
	t.out.Int(int64(port))
	t.out.Text("replication-offset")
	t.out.Int(0)
}
