package sqlite

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
	"github.com/pressly/goose/v3"
	"github.com/rouse-run/rouse"
)

//go:embed migrations/*.sql
var migrations embed.FS

// newestVersion is the version of the schema that this program writes.
func newestVersion() (int64, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil || len(names) == 0 {
		return 0, fmt.Errorf("no migrations: %w", err)
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(names[len(names)-1], "migrations/"), "_")
	return strconv.ParseInt(number, 10, 64)
}

// schemaVersion returns the version of the schema in the file, 0 when it is empty.
func schemaVersion(c *sqlite3.Conn) (int64, error) {
	tables, err := queryInt(c, `SELECT count(*) FROM sqlite_schema`)
	if err != nil || tables == 0 {
		return 0, err
	}
	ours, err := queryInt(c, `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'goose_db_version'`)
	if err != nil {
		return 0, err
	}
	if ours == 0 {
		return 0, &rouse.Error{
			Code: rouse.CodeInvalid, Op: opOpen, Message: "the file is a database of another program",
			Hint: "name another directory for the store",
		}
	}
	return queryInt(c, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`)
}

// migrate brings the schema of the file at path, which c has open, to the newest version.
func migrate(ctx context.Context, c *sqlite3.Conn, path string) error {
	want, err := newestVersion()
	if err != nil {
		return err
	}
	have, err := schemaVersion(c)
	if err != nil || have == want {
		return err
	}
	if have > want {
		return &rouse.Error{
			Code: rouse.CodeSchemaVersion, Op: opOpen,
			Message: fmt.Sprintf("the store has version %d, this program knows up to %d", have, want),
			Hint:    "use the newer program that made the store, or restore a backup of the older version",
		}
	}
	sources, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	db, err := driver.Open(path)
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, sources, goose.WithDisableGlobalRegistry(true))
	if err == nil {
		_, err = p.Up(ctx)
	}
	return errors.Join(err, db.Close())
}

// queryInt returns the one number that a statement yields.
func queryInt(c *sqlite3.Conn, sql string) (n int64, err error) {
	s, _, err := c.Prepare(sql)
	if err != nil {
		return 0, err
	}
	if s.Step() {
		n = s.ColumnInt64(0)
	}
	return n, errors.Join(s.Err(), s.Close())
}
