package cleave

import "context"

// Backup writes a copy of the store to a directory that does not exist or is
// empty, while the store works. The copy is consistent: all that was committed
// up to one moment, the same for all of its stores, and nothing else: a transaction
// is in it as a whole, or not at all. To restore it, open that
// directory, or a copy of it. Where the file system can, its files are links to
// those of the store: copy them elsewhere to survive the disk.
func (db *DB) Backup(ctx context.Context, dir string) error {
	return public(db.node.Backup(ctx, dir))
}
