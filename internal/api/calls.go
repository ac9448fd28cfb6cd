package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Status returns how the server is.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.Get(ctx, PathStatus, nil, &s)
}

// Map returns which group has which keys.
func (c *Client) Map(ctx context.Context) (m Map, err error) {
	return m, c.Get(ctx, PathMap, nil, &m)
}

// ShardFilter chooses shards. The zero value chooses all.
type ShardFilter struct {
	Keyspace string
	Group    uint64
}

// Shards returns the shards in the order of their keys.
func (c *Client) Shards(ctx context.Context, f ShardFilter) ([]Shard, error) {
	q := url.Values{}
	if f.Keyspace != "" {
		q.Set(QueryKeyspace, f.Keyspace)
	}
	if f.Group != 0 {
		q.Set(QueryGroup, id(f.Group))
	}
	return all[Shard](ctx, c, PathShards, q)
}

// Shard returns one shard with its explanation.
func (c *Client) Shard(ctx context.Context, shard uint64) (s Shard, err error) {
	return s, c.Get(ctx, at(PathShard, id(shard)), nil, &s)
}

// Groups returns all groups.
func (c *Client) Groups(ctx context.Context) ([]Group, error) {
	return all[Group](ctx, c, PathGroups, nil)
}

// Keyspaces returns all keyspaces by name.
func (c *Client) Keyspaces(ctx context.Context) ([]Keyspace, error) {
	return all[Keyspace](ctx, c, PathKeyspaces, nil)
}

// Indexes returns all indexes, or those of one keyspace.
func (c *Client) Indexes(ctx context.Context, keyspace string) ([]Index, error) {
	q := url.Values{}
	if keyspace != "" {
		q.Set(QueryKeyspace, keyspace)
	}
	return all[Index](ctx, c, PathIndexes, q)
}

// Jobs returns the jobs under way, and the last ones that have ended, the oldest first.
func (c *Client) Jobs(ctx context.Context) ([]Job, error) {
	return all[Job](ctx, c, PathJobs, nil)
}

// Job returns one job.
func (c *Client) Job(ctx context.Context, job string) (j Job, err error) {
	return j, c.Get(ctx, at(PathJob, job), nil, &j)
}

// WaitJob looks at a job again and again until it is over or ctx ends, and hands each
// look to seen, if there is one.
func (c *Client) WaitJob(ctx context.Context, job string, every time.Duration, seen func(Job)) (Job, error) {
	for {
		j, err := c.Job(ctx, job)
		if err != nil {
			return j, err
		}
		if seen != nil {
			seen(j)
		}
		if j.Over() {
			return j, nil
		}
		select {
		case <-ctx.Done():
			return j, ctx.Err()
		case <-time.After(every):
		}
	}
}

// Sagas returns the sagas of a journal, "" for the usual one: all, or those of a state,
// "stuck" included. The note says so if there is no journal.
func (c *Client) Sagas(ctx context.Context, keyspace, state string) (sagas []Saga, note string, err error) {
	q := url.Values{}
	if keyspace != "" {
		q.Set(QueryKeyspace, keyspace)
	}
	if state != "" {
		q.Set(QueryState, state)
	}
	return pages[Saga](ctx, c, PathSagas, q)
}

// ExplainKey says where a key is and why. keyspace is "" for the default one.
func (c *Client) ExplainKey(ctx context.Context, keyspace string, key Key) (e Explanation, err error) {
	q := url.Values{QueryKey: {key.String()}}
	if keyspace != "" {
		q.Set(QueryKeyspace, keyspace)
	}
	return e, c.Get(ctx, PathExplain, q, &e)
}

// ExplainSlot says where a slot of a hash keyspace is.
func (c *Client) ExplainSlot(ctx context.Context, keyspace string, slot int) (e Explanation, err error) {
	q := url.Values{QuerySlot: {strconv.Itoa(slot)}}
	if keyspace != "" {
		q.Set(QueryKeyspace, keyspace)
	}
	return e, c.Get(ctx, PathExplain, q, &e)
}

// ExplainShard says what a shard has and who has it.
func (c *Client) ExplainShard(ctx context.Context, shard uint64) (e Explanation, err error) {
	return e, c.Get(ctx, PathExplain, url.Values{QueryShard: {id(shard)}}, &e)
}

// Clients returns the connections of Redis clients.
func (c *Client) Clients(ctx context.Context) ([]Connection, error) {
	return all[Connection](ctx, c, PathClients, nil)
}

// Slowlog returns requests that took long, the newest first.
func (c *Client) Slowlog(ctx context.Context) ([]Slow, error) {
	return all[Slow](ctx, c, PathSlowlog, nil)
}

// Config returns the settings.
func (c *Client) Config(ctx context.Context) ([]Setting, error) {
	return all[Setting](ctx, c, PathConfig, nil)
}

// Backups returns the backups, the oldest first. The note says so if there is no place
// for them.
func (c *Client) Backups(ctx context.Context) (backups []Backup, note string, err error) {
	return pages[Backup](ctx, c, PathBackups, nil)
}

// Audit returns the newest entries of the audit log, the newest first.
func (c *Client) Audit(ctx context.Context) ([]Audit, error) {
	return all[Audit](ctx, c, PathAudit, nil)
}

// Ready returns whether the server takes requests. That it does not is no error.
func (c *Client) Ready(ctx context.Context) (r Ready, err error) {
	resp, text, err := c.send(ctx, http.MethodGet, PathReady, url.Values{QueryVerbose: {"true"}}, nil)
	if err != nil {
		return r, err
	}
	if resp.StatusCode == http.StatusServiceUnavailable {
		resp.StatusCode = http.StatusOK // an answer like the other
	}
	return r, read(resp, text, &r)
}

// ControlJob does one of pause, resume, cancel: the path says which.
func (c *Client) ControlJob(ctx context.Context, path, job string, dryRun bool) (Action, error) {
	return c.Act(ctx, at(path, job), Nothing{}, dryRun)
}

// ThrottleJob bounds how fast a job copies rows; 0 lifts the bound.
func (c *Client) ThrottleJob(ctx context.Context, job string, bytesPerSecond uint64, dryRun bool) (Action, error) {
	return c.Act(ctx, at(PathThrottleJob, job), Throttle{bytesPerSecond}, dryRun)
}

// at puts an id into a path.
func at(path, id string) string { return strings.Replace(path, "{id}", url.PathEscape(id), 1) }

// all reads a list to its end.
func all[T any](ctx context.Context, c *Client, path string, q url.Values) ([]T, error) {
	items, _, err := pages[T](ctx, c, path, q)
	return items, err
}

func pages[T any](ctx context.Context, c *Client, path string, q url.Values) (items []T, note string, err error) {
	query := url.Values{QueryLimit: {strconv.Itoa(MaxPage)}}
	for name, v := range q {
		query[name] = v
	}
	items = []T{}
	for {
		var p Page[T]
		if err := c.Get(ctx, path, query, &p); err != nil {
			return nil, "", err
		}
		items, note = append(items, p.Items...), p.Note
		if p.Next == "" || p.Next == query.Get(QueryAfter) {
			return items, note, nil
		}
		query.Set(QueryAfter, p.Next)
	}
}
