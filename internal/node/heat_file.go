package node

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cleavekv/cleave/heat"
)

// heatFile has the heat map of the node as it was saved last, and a checksum. It is no part of the data: without it the map
// begins anew. So it is not synced, and not in backups.
const heatFile = "HEATMAP"

// heatSaveInterval is how often the map is saved: so much of it is lost when the process is killed.
const heatSaveInterval = 5 * time.Minute

// loadHeatMap gives the map what was saved of it, and lets it be saved from now on. The stores are open: nobody else uses
// the directory.
func (n *Node) loadHeatMap() {
	if n.heat == nil || !n.opts.isOnDisk() {
		return
	}
	h := n.heat
	h.file, h.savedAt = filepath.Join(n.opts.Dir, heatFile), h.now()
	content, err := os.ReadFile(h.file)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = h.decodeMap(content)
	}
	if err != nil {
		n.events.limited.Info("the heat map begins anew", "file", h.file, "error", err, "reason", "heat map")
	}
}

// decodeMap loads the content of the file.
func (h *nodeHeat) decodeMap(content []byte) error {
	body := content[:max(0, len(content)-4)]
	if len(content) < 4 || binary.LittleEndian.Uint32(content[len(body):]) != crc32.ChecksumIEEE(body) {
		return heat.ErrEncoding
	}
	return h.keyMap.Load(body, h.now())
}

// saveHeatMap writes the file, if the map is kept in one.
func (n *Node) saveHeatMap() {
	h := n.heat
	if h == nil || h.file == "" {
		return
	}
	h.savedAt = h.now()
	b, err := h.keyMap.AppendBinary(nil)
	if err == nil {
		b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
		temp := h.file + ".tmp"
		if err = os.WriteFile(temp, b, 0o600); err == nil {
			err = os.Rename(temp, h.file)
		}
		if err != nil {
			_ = os.Remove(temp) // on a disk that is full
		}
	}
	if err != nil {
		n.events.limited.Info("the heat map is not saved", "file", h.file, "error", err, "reason", "heat map")
	}
}
