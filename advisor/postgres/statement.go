package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/advisor/internal/sqlquery"
)

// maxStatements is how many statements are read, those that are called most first: what is called less
// has hardly any share.
const maxStatements = 2000

// Queries returns what was asked of the table since the statistics were reset: the columns that
// statements compare in WHERE, by how often they were called. A column counts where all of the
// condition needs it: not if it is part of an OR. Lists of values (IN, ANY) count as one. Statements
// that are too hard to read count as asking for no column. It is called before Next.
func (t *Table) Queries(ctx context.Context) ([]advisor.Query, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// A statement that fails ends a transaction, so it is one in the transaction of its own.
	point, err := t.tx.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("postgres: begin: %w", err)
	}
	rows, err := point.Query(ctx, `SELECT query, sum(calls)::bigint FROM pg_stat_statements
		WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND query ILIKE '%' || $1 || '%'
		GROUP BY query ORDER BY 2 DESC LIMIT $2`, likePattern(t.name), maxStatements)
	var queries []advisor.Query
	if err == nil {
		var text string
		var calls int64
		_, err = pgx.ForEachRow(rows, []any{&text, &calls}, func() error {
			if q, ok := sqlquery.Read(text, sqlquery.Options{Schema: t.schema, Table: t.name, Columns: t.columns}); ok {
				q.Count = calls
				queries = append(queries, q)
			}
			return nil
		})
	}
	if rollbackErr := point.Rollback(ctx); err == nil && rollbackErr != nil {
		err = rollbackErr
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return nil, fmt.Errorf("%w: %s", ErrNoStatements, server.Message)
	}
	if err != nil {
		return nil, fmt.Errorf("postgres: read pg_stat_statements: %w", err)
	}
	return queries, nil
}

// likePattern escapes what LIKE takes for more than a character.
func likePattern(text string) string {
	return strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(text)
}
