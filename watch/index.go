package watch

import "github.com/cleavekv/cleave"

// index finds who watches a key.
type index map[string]*spaceIndex // by the name of the keyspace

type spaceIndex struct {
	keys     map[string]map[*Watcher]struct{}
	ranges   *intervals
	watchers int
}

func (x index) add(w *Watcher) {
	name := w.target.Keyspace.Name()
	s := x[name]
	if s == nil {
		s = &spaceIndex{keys: map[string]map[*Watcher]struct{}{}, ranges: newIntervals()}
		x[name] = s
	}
	s.watchers++
	if w.target.Keys == nil {
		s.ranges.add(w)
		return
	}
	for _, key := range w.target.Keys {
		set := s.keys[string(key)]
		if set == nil {
			set = map[*Watcher]struct{}{}
			s.keys[string(key)] = set
		}
		set[w] = struct{}{}
	}
}

func (x index) remove(w *Watcher) {
	name := w.target.Keyspace.Name()
	s := x[name]
	if s.watchers--; s.watchers == 0 {
		delete(x, name)
		return
	}
	if w.target.Keys == nil {
		s.ranges.remove(w)
		return
	}
	for _, key := range w.target.Keys {
		set := s.keys[string(key)]
		if delete(set, w); len(set) == 0 {
			delete(s.keys, string(key))
		}
	}
}

// visit calls f with all who watch the key of a change.
func (x index) visit(op *cleave.ChangeOp, f func(*Watcher)) {
	s := x[op.Keyspace]
	if s == nil {
		return
	}
	for w := range s.keys[string(op.Key)] {
		f(w)
	}
	s.ranges.visit(op.Key, f)
}
