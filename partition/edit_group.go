package partition

import (
	"cmp"
	"fmt"
	"slices"
)

// AddGroup adds a group without shards.
type AddGroup struct {
	// ID is one that no group ever had, at least [Map.NextGroup]. 0 takes that.
	ID     GroupID
	Labels Labels
}

// String is the edit in errors and reports.
func (e AddGroup) String() string {
	if e.ID == 0 {
		return fmt.Sprintf("add group %q", e.Labels)
	}
	return fmt.Sprintf("add group %v %q", e.ID, e.Labels)
}

func (e AddGroup) apply(d *draft) error {
	id := cmp.Or(e.ID, d.nextGroup)
	switch {
	case id < d.nextGroup:
		return fmt.Errorf("%w: %v: use %v or above", ErrGroupID, id, d.nextGroup)
	case id >= maxNumber:
		return fmt.Errorf("%w: %v is no id", ErrLimit, id)
	case len(d.groups) >= MaxGroups:
		return fmt.Errorf("%w: %d groups already", ErrLimit, len(d.groups))
	}
	d.groups = append(d.editGroups(), Group{ID: id, Labels: e.Labels})
	d.nextGroup = id + 1
	return nil
}

// SetDraining starts to drain a group, or stops it. The shards stay until they
// are moved.
type SetDraining struct {
	Group    GroupID
	Draining bool
}

// String is the edit in errors and reports.
func (e SetDraining) String() string {
	if e.Draining {
		return fmt.Sprintf("drain %v", e.Group)
	}
	return fmt.Sprintf("stop draining %v", e.Group)
}

func (e SetDraining) apply(d *draft) error {
	i, err := d.group(e.Group)
	if err != nil {
		return err
	}
	switch {
	case d.groups[i].Draining && e.Draining:
		return fmt.Errorf("%w: %v is draining", ErrNoChange, e.Group)
	case !d.groups[i].Draining && !e.Draining:
		return fmt.Errorf("%w: %v is not draining", ErrNoChange, e.Group)
	}
	d.editGroups()[i].Draining = e.Draining
	return nil
}

// RemoveGroup removes a group that has no shards. Its id is gone for ever.
type RemoveGroup struct{ Group GroupID }

// String is the edit in errors and reports.
func (e RemoveGroup) String() string { return fmt.Sprintf("remove %v", e.Group) }

func (e RemoveGroup) apply(d *draft) error {
	i, err := d.group(e.Group)
	if err != nil {
		return err
	}
	for s := range d.Owned(e.Group) {
		return fmt.Errorf("%w: %v has %v: move it first", ErrInUse, e.Group, s.ID)
	}
	d.groups = slices.Delete(d.editGroups(), i, i+1)
	return nil
}
