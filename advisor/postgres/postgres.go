// Package postgres reads a table of PostgreSQL for package advisor, and what programs ask of it.
//
// [Open] reads the table in one transaction that is read-only and sees one moment, in the order in
// which it is stored: that of arrival, except where rows were updated or space was used again. With
// Options.Percent it reads only some of its pages, which costs less and keeps neighbors together. Types
// are those of the catalog.
//
// [Table.Queries] reads what was asked of the table from the extension pg_stat_statements, if the
// database has it.
//
// The connection is that of package pgx: a URL or words such as host=db user=me, what is left out
// comes from PGHOST and the like, from ~/.pgpass and the service file. Nothing is written.
package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/cleavekv/cleave/advisor"
)

// Errors of Open, and what they mean.
var (
	ErrUnreachable = errors.New("postgres: cannot connect")
	ErrNoTable     = errors.New("postgres: no such table")
	ErrPermission  = errors.New("postgres: no permission")
	ErrOptions     = errors.New("postgres: bad options")
	// ErrNoStatements means that there is no pg_stat_statements to read queries from.
	ErrNoStatements = errors.New("postgres: no pg_stat_statements")
)

// Options specify what is read. Table is needed.
type Options struct {
	// Table is the name as SQL has it, with a schema or without: orders, shop.orders, "Order".
	Table string
	// Percent of the table's pages are read, chosen by chance but the same each time. Default all.
	Percent float64
}

// Table is an [advisor.Source]. Get one from Open, and close it.
type Table struct {
	cancel context.CancelFunc
	ctx    context.Context
	// table is the name with its schema, quoted; schema and name are its parts.
	table, schema, name string
	columns             []string
	kinds               []advisor.ValueKind
	isTime              []bool
	estimate            int64

	mu   sync.Mutex // guards what follows: Close may come while Next is under way
	conn *pgx.Conn
	tx   pgx.Tx
	rows pgx.Rows // nil before the first call of Next
	row  int64
	text []byte
	all  string // the statement that reads it
}

// chunkRows and chunkBytes are how much is read at once.
const (
	chunkRows  = 8192
	chunkBytes = 512 << 10
)

// Open connects and finds the table. Reading ends when the context ends.
func Open(ctx context.Context, connection string, o Options) (*Table, error) {
	if o.Percent < 0 || o.Percent > 100 {
		return nil, fmt.Errorf("%w: %v percent of the table: want more than 0, up to 100", ErrOptions, o.Percent)
	}
	config, err := pgx.ParseConfig(connection)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	config.RuntimeParams["application_name"] = "cleave advise"
	config.RuntimeParams["timezone"] = "UTC"
	config.RuntimeParams["datestyle"] = "ISO"
	config.RuntimeParams["default_transaction_read_only"] = "on"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	t := &Table{conn: conn}
	t.ctx, t.cancel = context.WithCancel(ctx)
	if err := t.begin(o); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// begin starts the transaction and finds the table.
func (t *Table) begin(o Options) (err error) {
	t.tx, err = t.conn.BeginTx(t.ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return fmt.Errorf("postgres: begin: %w", err)
	}
	var id *uint32
	if err := t.tx.QueryRow(t.ctx, "SELECT to_regclass($1)::oid", o.Table).Scan(&id); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNoTable, o.Table, err)
	}
	if id == nil {
		return t.newNoTableError(o.Table)
	}
	var kind string
	err = t.tx.QueryRow(t.ctx, `SELECT c.relkind::text, n.nspname, c.relname, greatest(c.reltuples, 0)::bigint
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1`, *id).Scan(&kind, &t.schema, &t.name, &t.estimate)
	if err != nil {
		return fmt.Errorf("postgres: table %s: %w", o.Table, err)
	}
	t.table = pgx.Identifier{t.schema, t.name}.Sanitize()
	switch {
	case !strings.Contains("rpmvf", kind):
		return fmt.Errorf("%w: %s is an index, a sequence or a type", ErrNoTable, t.table)
	case o.Percent > 0 && !strings.Contains("rpm", kind):
		return fmt.Errorf("%w: %s is a view or a foreign table: only of tables can some percent be read", ErrOptions, t.table)
	}
	if err := t.listColumns(*id); err != nil {
		return err
	}
	var names []string
	for _, name := range t.columns {
		names = append(names, pgx.Identifier{name}.Sanitize())
	}
	t.all = "SELECT " + strings.Join(names, ", ") + " FROM " + t.table
	if o.Percent > 0 {
		t.all += fmt.Sprintf(" TABLESAMPLE SYSTEM (%g) REPEATABLE (1)", o.Percent)
		t.estimate = int64(float64(t.estimate) * o.Percent / 100)
	}
	return nil
}

// listColumns reads the names and types of the columns.
func (t *Table) listColumns(id uint32) error {
	rows, err := t.tx.Query(t.ctx, `SELECT attname, CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
		FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
		WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, id)
	if err != nil {
		return fmt.Errorf("postgres: columns of %s: %w", t.table, err)
	}
	var name string
	var typ uint32
	_, err = pgx.ForEachRow(rows, []any{&name, &typ}, func() error {
		t.columns = append(t.columns, name)
		t.kinds = append(t.kinds, kindOf(typ))
		t.isTime = append(t.isTime, typ == pgtype.TimestampOID || typ == pgtype.TimestamptzOID)
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("postgres: columns of %s: %w", t.table, err)
	case len(t.columns) == 0:
		return fmt.Errorf("%w: %s has no columns", ErrNoTable, t.table)
	case len(t.columns) > advisor.MaxColumns:
		return fmt.Errorf("%w: %s has %d columns: at most %d are analysed", ErrOptions, t.table, len(t.columns), advisor.MaxColumns)
	}
	return nil
}

// kindOf returns what a type of the catalog says about values.
func kindOf(typ uint32) advisor.ValueKind {
	switch typ {
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.OIDOID, pgtype.Float4OID, pgtype.Float8OID, pgtype.NumericOID:
		return advisor.Number
	case pgtype.BoolOID:
		return advisor.Bool
	}
	return advisor.String
}

// newNoTableError names tables that there are.
func (t *Table) newNoTableError(name string) error {
	rows, err := t.tx.Query(t.ctx, `SELECT CASE WHEN schemaname = 'public' THEN '' ELSE quote_ident(schemaname) || '.' END || quote_ident(tablename)
		FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1 LIMIT 21`)
	if err != nil {
		return fmt.Errorf("%w: %s", ErrNoTable, name)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s", ErrNoTable, name)
	case len(names) == 0:
		return fmt.Errorf("%w: %s; the database %s has none", ErrNoTable, name, t.conn.Config().Database)
	case len(names) > 20:
		names[20] = "…"
	}
	return fmt.Errorf("%w: %s; there are %s", ErrNoTable, name, strings.Join(names, ", "))
}

// Name returns the name of the table with its schema.
func (t *Table) Name() string { return t.table }

// EstimatedRows returns about how many rows will be read, as the database's statistics have it; 0 if
// they do not know.
func (t *Table) EstimatedRows() int64 { return t.estimate }

// Next is part of [advisor.Source].
func (t *Table) Next(records *advisor.Records) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == nil {
		return errors.New("postgres: the table was closed")
	}
	records.SetColumns(t.columns)
	if t.rows == nil {
		rows, err := t.tx.Query(t.ctx, t.all, pgx.QueryExecModeDescribeExec, pgx.QueryResultFormats{pgx.TextFormatCode})
		if err != nil {
			return t.newReadError(err)
		}
		t.rows = rows
	}
	for records.Len() < chunkRows && len(records.Text()) < chunkBytes {
		if !t.rows.Next() {
			if err := t.rows.Err(); err != nil {
				return t.newReadError(err)
			}
			if records.Len() == 0 {
				return io.EOF
			}
			break
		}
		t.appendRow(records, t.rows.RawValues())
	}
	return nil
}

// appendRow appends a row of texts.
func (t *Table) appendRow(records *advisor.Records, values [][]byte) {
	size := 0
	for i, v := range values {
		switch {
		case v == nil:
			records.AppendValue(advisor.Null, nil)
		case t.kinds[i] == advisor.Bool && string(v) == "t":
			records.AppendValue(advisor.Bool, []byte("true"))
		case t.kinds[i] == advisor.Bool:
			records.AppendValue(advisor.Bool, []byte("false"))
		case t.isTime[i] && len(v) > len("2006-01-02") && v[10] == ' ':
			// The zone is UTC, so this is RFC 3339 but for a T and a Z.
			t.text = append(t.text[:0], bytes.TrimSuffix(v, []byte("+00"))...)
			t.text[10] = 'T'
			t.text = append(t.text, 'Z')
			records.AppendValue(advisor.String, t.text)
		default:
			records.AppendValue(t.kinds[i], v)
		}
		size += len(v)
	}
	t.row++
	records.EndRecord(t.row, size)
	records.AddInput(int64(size))
}

// newReadError says what to do where a permission is missing.
func (t *Table) newReadError(err error) error {
	var server *pgconn.PgError
	if errors.As(err, &server) && server.Code == "42501" {
		return fmt.Errorf("%w: %s; GRANT SELECT ON %s TO %s", ErrPermission, server.Message, t.table, pgx.Identifier{t.conn.Config().User}.Sanitize())
	}
	return fmt.Errorf("postgres: read %s after %d rows: %w", t.table, t.row, err)
}

// Close ends the reading and the connection. It may be called while Next is under way, which then
// returns an error.
func (t *Table) Close() {
	t.cancel()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == nil {
		return
	}
	if t.rows != nil {
		t.rows.Close()
	}
	// The transaction wrote nothing, so it ends with the connection; an error of that changes nothing.
	_ = t.conn.Close(context.WithoutCancel(t.ctx))
	t.conn = nil
}
