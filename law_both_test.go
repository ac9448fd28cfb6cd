package cleave

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// operations are what a keyspace and a transaction both can do.
type operations interface {
	Get(key []byte) ([]byte, error)
	GetMany(keys ...[]byte) ([][]byte, error)
	Item(key []byte) (Item, error)
	Exists(key []byte) (bool, error)
	SetWith(key, value []byte, o SetOptions) error
	Delete(keys ...[]byte) (int, error)
	AddWith(key []byte, delta int64, o AddOptions) (int64, error)
	Expire(key []byte, after time.Duration) (bool, error)
	Persist(key []byte) (bool, error)
	HGet(key, name []byte) ([]byte, error)
	HGetAll(key []byte) ([]Field, error)
	HLen(key []byte) (int, error)
	HScan(key, after []byte, limit int) ([]Field, []byte, error)
	HSet(key []byte, fields ...Field) (int, error)
	HDel(key []byte, names ...[]byte) (int, error)
	HAdd(key, name []byte, delta int64) (int64, error)
	Scan(o ScanOptions) ([]Item, error)
}

// direct are those of a keyspace.
type direct struct{ ks *Keyspace }

func (d direct) Get(key []byte) ([]byte, error)           { return d.ks.Get(ctx, key) }
func (d direct) GetMany(keys ...[]byte) ([][]byte, error) { return d.ks.GetMany(ctx, keys...) }
func (d direct) Item(key []byte) (Item, error)            { return d.ks.Item(ctx, key) }
func (d direct) Exists(key []byte) (bool, error)          { return d.ks.Exists(ctx, key) }
func (d direct) SetWith(key, value []byte, o SetOptions) error {
	if o == (SetOptions{}) {
		return d.ks.Set(ctx, key, value)
	}
	_, err := d.ks.SetWith(ctx, key, value, o)
	return err
}
func (d direct) Delete(keys ...[]byte) (int, error) { return d.ks.Delete(ctx, keys...) }
func (d direct) AddWith(key []byte, delta int64, o AddOptions) (int64, error) {
	if o == (AddOptions{}) {
		return d.ks.Add(ctx, key, delta)
	}
	return d.ks.AddWith(ctx, key, delta, o)
}
func (d direct) Expire(key []byte, after time.Duration) (bool, error) {
	return d.ks.Expire(ctx, key, after)
}
func (d direct) Persist(key []byte) (bool, error)      { return d.ks.Persist(ctx, key) }
func (d direct) HGet(key, name []byte) ([]byte, error) { return d.ks.HGet(ctx, key, name) }
func (d direct) HGetAll(key []byte) ([]Field, error)   { return d.ks.HGetAll(ctx, key) }
func (d direct) HLen(key []byte) (int, error)          { return d.ks.HLen(ctx, key) }
func (d direct) HScan(key, after []byte, limit int) ([]Field, []byte, error) {
	return d.ks.HScan(ctx, key, after, limit)
}
func (d direct) HSet(key []byte, fields ...Field) (int, error) { return d.ks.HSet(ctx, key, fields...) }
func (d direct) HDel(key []byte, names ...[]byte) (int, error) { return d.ks.HDel(ctx, key, names...) }
func (d direct) HAdd(key, name []byte, delta int64) (int64, error) {
	return d.ks.HAdd(ctx, key, name, delta)
}
func (d direct) Scan(o ScanOptions) (items []Item, err error) {
	for item, err := range d.ks.All(ctx, o) {
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// inTxn are those of a transaction.
type inTxn struct {
	tx *Txn
	ks *Keyspace
}

func (d inTxn) Get(key []byte) ([]byte, error)           { return d.tx.Get(d.ks, key) }
func (d inTxn) GetMany(keys ...[]byte) ([][]byte, error) { return d.tx.GetMany(d.ks, keys...) }
func (d inTxn) Item(key []byte) (Item, error)            { return d.tx.Item(d.ks, key) }
func (d inTxn) Exists(key []byte) (bool, error)          { return d.tx.Exists(d.ks, key) }
func (d inTxn) SetWith(key, value []byte, o SetOptions) error {
	return d.tx.SetWith(d.ks, key, value, o)
}
func (d inTxn) Delete(keys ...[]byte) (int, error) { return d.tx.Delete(d.ks, keys...) }
func (d inTxn) AddWith(key []byte, delta int64, o AddOptions) (int64, error) {
	return d.tx.AddWith(d.ks, key, delta, o)
}
func (d inTxn) Expire(key []byte, after time.Duration) (bool, error) {
	return d.tx.Expire(d.ks, key, after)
}
func (d inTxn) Persist(key []byte) (bool, error)      { return d.tx.Persist(d.ks, key) }
func (d inTxn) HGet(key, name []byte) ([]byte, error) { return d.tx.HGet(d.ks, key, name) }
func (d inTxn) HGetAll(key []byte) ([]Field, error)   { return d.tx.HGetAll(d.ks, key) }
func (d inTxn) HLen(key []byte) (int, error)          { return d.tx.HLen(d.ks, key) }
func (d inTxn) HScan(key, after []byte, limit int) ([]Field, []byte, error) {
	return d.tx.HScan(d.ks, key, after, limit)
}
func (d inTxn) HSet(key []byte, fields ...Field) (int, error) { return d.tx.HSet(d.ks, key, fields...) }
func (d inTxn) HDel(key []byte, names ...[]byte) (int, error) { return d.tx.HDel(d.ks, key, names...) }
func (d inTxn) HAdd(key, name []byte, delta int64) (int64, error) {
	return d.tx.HAdd(d.ks, key, name, delta)
}
func (d inTxn) Scan(o ScanOptions) (items []Item, err error) {
	for item, err := range d.tx.Scan(d.ks, o) {
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// What can be done to a keyspace can be done in a transaction, with the same
// arguments, and what writes in a batch. What is left out has its reason here.
func TestKeyspacesTransactionsAndBatchesReadAlike(t *testing.T) {
	keyspace, txn, batch := reflect.TypeFor[*Keyspace](), reflect.TypeFor[*Txn](), reflect.TypeFor[*Batch]()
	notInTxn := []string{
		"Name", "Options", "DB", "After", // of the keyspace itself
		"Locate",  // of the map, which no transaction sees another state of
		"Dropped", // something to wait for, which a transaction does not
		"AddOnce", // a transaction has no request
		"All",     // Txn.Scan is that
		"Scan",    // in pages: a transaction has one state anyway
		// Of memory, not of data.
		"Pin", "PinFields", "Unpin", "UnpinFields", "CacheMetrics",
	}
	writes := []string{"Set", "SetWith", "Delete", "Add", "AddWith", "Expire", "Persist", "HSet", "HDel", "HAdd"}
	for i := range keyspace.NumMethod() {
		m := keyspace.Method(i)
		if slices.Contains(notInTxn, m.Name) {
			continue
		}
		same(t, "Txn", m, txn)
		if slices.Contains(writes, m.Name) {
			same(t, "Batch", m, batch)
		}
	}
}

// same compares the arguments behind the context and behind the keyspace.
func same(t *testing.T, what string, m reflect.Method, in reflect.Type) {
	other, ok := in.MethodByName(m.Name)
	if !ok {
		t.Errorf("a %s lacks %s", what, m.Name)
		return
	}
	if m.Type.NumIn() != other.Type.NumIn() || m.Type.IsVariadic() != other.Type.IsVariadic() {
		t.Errorf("%s.%s is %v, that of a keyspace %v", what, m.Name, other.Type, m.Type)
		return
	}
	for i := 2; i < m.Type.NumIn(); i++ {
		if m.Type.In(i) != other.Type.In(i) {
			t.Errorf("%s.%s is %v, that of a keyspace %v", what, m.Name, other.Type, m.Type)
		}
	}
}
