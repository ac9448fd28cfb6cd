package balancer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/partition"
)

// Ground is why a hot shard may be left as it is.
type Ground string

// The grounds.
const (
	// BriefPeaks loads are predictable, and short beside the time that another layout takes to make.
	BriefPeaks Ground = "brief-peaks"
	// ChangeCostsMore means that another layout costs more than what the heat does.
	ChangeCostsMore Ground = "change-costs-more"
	// EndOfLife means that what the keys are for is replaced soon.
	EndOfLife Ground = "end-of-life"
)

// ErrAcceptance means that a shard cannot be accepted as it is: the text says why.
var ErrAcceptance = errors.New("balancer: not accepted")

// Acceptance is the verdict that a shard stays hot: with its price, its reason and its end.
type Acceptance struct {
	Shard partition.ShardID `json:"shard"`
	// Price is what it costs to leave it, in words, and Reason why that is better.
	Price  string `json:"price"`
	Ground Ground `json:"ground"`
	Reason string `json:"reason"`
	// MadeMS and UntilMS are when it was made and when it ends, in Unix milliseconds.
	MadeMS  int64 `json:"made_ms"`
	UntilMS int64 `json:"until_ms"`
}

const (
	acceptPrefix   = "accept/"
	criticalPrefix = "critical/"
	// maxAcceptance is for how long a shard is accepted at most: loads change, and nobody looks again by themselves.
	maxAcceptance = 90 * 24 * time.Hour
)

// Accept leaves a hot shard as it is until a time.
func (b *Balancer) Accept(ctx context.Context, a Acceptance) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.checkAcceptance(&a); err != nil {
		return err
	}
	content, err := json.Marshal(&a)
	if err != nil {
		return err
	}
	if err := b.node.PutNotes(ctx, map[string][]byte{acceptPrefix + idText(a.Shard): content}); err != nil {
		return err
	}
	b.accepted[a.Shard] = a
	b.stats.recordAccepted(b.accepted)
	return nil
}

// CheckAcceptance reports whether Accept would take it. Nothing changes.
func (b *Balancer) CheckAcceptance(a *Acceptance) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.checkAcceptance(a)
}

func (b *Balancer) checkAcceptance(a *Acceptance) error {
	s, ok := b.node.Map().Shard(a.Shard)
	if !ok {
		return fmt.Errorf("%w: %v is gone", partition.ErrUnknownShard, a.Shard)
	}
	a.MadeMS = b.node.WallMS()
	switch a.Ground {
	case BriefPeaks, ChangeCostsMore, EndOfLife:
	default:
		return fmt.Errorf("%w: ground is %q: use %s, %s or %s", ErrAcceptance, a.Ground, BriefPeaks, ChangeCostsMore, EndOfLife)
	}
	switch left := a.UntilMS - a.MadeMS; {
	case a.Price == "" || a.Reason == "":
		return fmt.Errorf("%w: give a price and a reason: who reads this later must know both", ErrAcceptance)
	case left <= 0 || left > maxAcceptance.Milliseconds():
		return fmt.Errorf("%w: it ends in %v: use more than 0 and at most %v", ErrAcceptance, time.Duration(left)*time.Millisecond, maxAcceptance)
	}
	if k := findKeyspace(b.node.Keyspaces(), s.Span); k != nil && b.critical[k.Name] {
		return fmt.Errorf("%w: keyspace %s is critical: heat on it is never accepted. Relieve it, or take the mark away", ErrAcceptance, k.Name)
	}
	return nil
}

// Revoke ends the acceptance of a shard, if there is one.
func (b *Balancer) Revoke(ctx context.Context, id partition.ShardID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.revoke(ctx, id)
}

func (b *Balancer) revoke(ctx context.Context, ids ...partition.ShardID) error {
	notes := map[string][]byte{}
	for _, id := range ids {
		if _, ok := b.accepted[id]; ok {
			notes[acceptPrefix+idText(id)] = nil
		}
	}
	if err := b.node.PutNotes(ctx, notes); err != nil {
		return err
	}
	for _, id := range ids {
		delete(b.accepted, id)
	}
	b.stats.recordAccepted(b.accepted)
	return nil
}

// Acceptance returns the verdict on a shard, if it is accepted at the moment.
func (b *Balancer) Acceptance(id partition.ShardID) (Acceptance, bool) {
	all := b.Acceptances()
	i := slices.IndexFunc(all, func(a Acceptance) bool { return a.Shard == id })
	if i < 0 {
		return Acceptance{}, false
	}
	return all[i], true
}

// Acceptances returns the verdicts that hold at the moment, by shard. It waits for no round.
func (b *Balancer) Acceptances() (all []Acceptance) {
	b.stats.mu.Lock()
	defer b.stats.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(b.stats.accepted)) {
		if a := b.stats.accepted[id]; b.node.WallMS() < a.UntilMS {
			all = append(all, a)
		}
	}
	return all
}

// SetCritical marks a keyspace, or takes the mark away: heat on one that is critical is never accepted.
func (b *Balancer) SetCritical(ctx context.Context, k *node.Keyspace, critical bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if critical == b.critical[k.Name] {
		return nil
	}
	content := []byte("1")
	if !critical {
		content = nil
	}
	if err := b.node.PutNotes(ctx, map[string][]byte{criticalPrefix + k.Name: content}); err != nil {
		return err
	}
	if !critical {
		delete(b.critical, k.Name)
		return nil
	}
	b.critical[k.Name] = true
	// What was accepted before ends: the mark says never.
	var ended []partition.ShardID
	for id := range b.accepted {
		if s, ok := b.node.Map().Shard(id); ok && k.Span().Overlaps(s.Span) {
			ended = append(ended, id)
		}
	}
	return b.revoke(ctx, ended...)
}

// IsCritical reports whether a keyspace is marked.
func (b *Balancer) IsCritical(keyspace string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.critical[keyspace]
}

// loadAcceptances reads what was accepted, and which keyspaces are critical.
func (b *Balancer) loadAcceptances(ctx context.Context) error {
	b.accepted, b.critical = map[partition.ShardID]Acceptance{}, map[string]bool{}
	notes, err := b.node.Notes(ctx, acceptPrefix)
	if err != nil {
		return fmt.Errorf("read what is accepted: %w", err)
	}
	for _, content := range notes {
		var a Acceptance
		if err := json.Unmarshal(content, &a); err != nil {
			return fmt.Errorf("read what is accepted: %w", err)
		}
		b.accepted[a.Shard] = a
	}
	b.stats.recordAccepted(b.accepted)
	if notes, err = b.node.Notes(ctx, criticalPrefix); err != nil {
		return fmt.Errorf("read the critical keyspaces: %w", err)
	}
	for name := range notes {
		b.critical[name] = true
	}
	return nil
}

// endAcceptances forgets those that are over, or whose shard is gone. mu is held.
func (b *Balancer) endAcceptances(ctx context.Context) error {
	var over []partition.ShardID
	for id, a := range b.accepted {
		if _, ok := b.node.Map().Shard(id); !ok || b.node.WallMS() >= a.UntilMS {
			over = append(over, id)
		}
	}
	return b.revoke(ctx, over...)
}

func idText(id partition.ShardID) string { return strconv.FormatUint(uint64(id), 10) }
