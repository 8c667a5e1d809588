package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"
	"github.com/rouse-run/rouse"
)

const blobPrefix = "sha256:"

// PutBlob implements store.Blobs. The error is CodeTooLarge for more than
// Config.MaxBytes. What was said of ctx at Commit holds here.
func (s *Store) PutBlob(ctx context.Context, data []byte) (string, error) {
	if int64(len(data)) > s.cfg.MaxBytes {
		return "", &rouse.Error{
			Code: rouse.CodeTooLarge, Op: opBlob, Message: fmt.Sprintf("a blob of %d bytes is over the limit of %d", len(data), s.cfg.MaxBytes),
			Hint: "raise MaxBytes",
		}
	}
	r := newRequest()
	r.blob, r.hash = data, sha256.Sum256(data)
	ref := blobPrefix + hex.EncodeToString(r.hash[:])
	there := false
	err := s.read(ctx, opBlob, func(rd *reader) error {
		return rd.query(`SELECT 1 FROM blobs WHERE hash = ?1`, func(*sqlite3.Stmt) error {
			there = true
			return nil
		}, r.hash[:])
	})
	if err == nil && !there {
		err = s.submit(ctx, opBlob, r)
	}
	if err != nil {
		return "", err
	}
	return ref, nil
}

func (w *writer) writeBlob(r *request) error {
	if err := w.fault(PointBlobBegin); err != nil {
		return err
	}
	data := r.blob
	if data == nil {
		data = []byte{}
	}
	add := binder{s: w.stmts.addBlob}
	if err := add.blob(r.hash[:]).blob(data).int(w.now).exec(); err != nil {
		return err
	}
	return w.fault(PointBlobDone)
}

// Blob implements store.Blobs. The error is CodeInvalid for what is not a
// reference at all and CodeCorrupt when the bytes do not have the hash that the
// reference names.
func (s *Store) Blob(ctx context.Context, ref string) ([]byte, error) {
	digits, ok := strings.CutPrefix(ref, blobPrefix)
	hash, err := hex.DecodeString(digits)
	if !ok || err != nil || len(hash) != sha256.Size {
		return nil, invalid(opBlob, "a reference of a blob is sha256: and 64 hexadecimal digits")
	}
	var data []byte
	err = s.read(ctx, opBlob, func(rd *reader) error {
		return rd.query(`SELECT data FROM blobs WHERE hash = ?1`, func(st *sqlite3.Stmt) error {
			data = st.ColumnBlob(0, []byte{})
			return nil
		}, hash)
	})
	switch {
	case err != nil:
		return nil, err
	case data == nil:
		return nil, notFound(opBlob, "blob")
	case sha256.Sum256(data) != [sha256.Size]byte(hash):
		return nil, &rouse.Error{Code: rouse.CodeCorrupt, Op: opBlob, Message: "the blob's bytes are not those that were stored"}
	}
	return data, nil
}
