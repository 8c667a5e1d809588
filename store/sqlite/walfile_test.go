package sqlite

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"syscall"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
	"pgregory.net/rapid"
)

// memFile is a file in memory that counts its writes and may refuse them.
type memFile struct {
	vfs.File // nil: what is not below is not used
	data     []byte
	writes   int
	syncs    int
	refuse   error
	short    bool
}

func (f *memFile) WriteAt(p []byte, at int64) (int, error) {
	f.writes++
	if f.refuse != nil {
		return 0, f.refuse
	}
	if f.short {
		return len(p) - 1, nil
	}
	if grow := int(at) + len(p) - len(f.data); grow > 0 {
		f.data = append(f.data, make([]byte, grow)...)
	}
	return copy(f.data[at:], p), nil
}

func (f *memFile) ReadAt(p []byte, at int64) (int, error) {
	if at >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.data[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Truncate(size int64) error {
	f.data = f.data[:min(int(size), len(f.data))]
	return nil
}

func (f *memFile) Sync(vfs.SyncFlag) error { f.syncs++; return nil }
func (f *memFile) Size() (int64, error)    { return int64(len(f.data)), nil }

// TestLogFile holds a logFile against a plain file: whatever is done to both, they
// answer alike, and after a Sync they hold the same.
func TestLogFile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		under, plain := &memFile{}, &memFile{}
		f := &logFile{File: under}
		end := int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			switch rapid.IntRange(0, 9).Draw(t, "call") {
			default:
				p := bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, rapid.SampledFrom([]int{1, 24, 4096, logBuffer - 100, logBuffer, logBuffer + 1}).Draw(t, "length"))
				at := end
				if rapid.IntRange(0, 4).Draw(t, "elsewhere") == 0 {
					at = rapid.Int64Range(0, end).Draw(t, "at")
				}
				if n, err := f.WriteAt(p, at); n != len(p) || err != nil {
					t.Fatalf("%d bytes written of %d, %v", n, len(p), err)
				}
				_, _ = plain.WriteAt(p, at)
				end = max(end, at+int64(len(p)))
			case 6:
				got, want := make([]byte, 30), make([]byte, 30)
				at := rapid.Int64Range(0, end+1).Draw(t, "from")
				n, err := f.ReadAt(got, at)
				m, wantErr := plain.ReadAt(want, at)
				if n != m || !errors.Is(err, wantErr) || !bytes.Equal(got, want) {
					t.Fatalf("read %d, %v, want %d, %v", n, err, m, wantErr)
				}
			case 7:
				size, err := f.Size()
				if want := int64(len(plain.data)); size != want || err != nil {
					t.Fatalf("the size is %d, %v, want %d", size, err, want)
				}
			case 8:
				size := rapid.Int64Range(0, end).Draw(t, "size")
				if err := errors.Join(f.Truncate(size), plain.Truncate(size)); err != nil {
					t.Fatal(err)
				}
				end = size
			case 9:
				if err := f.Sync(0); err != nil || !slices.Equal(under.data, plain.data) {
					t.Fatalf("after Sync the files differ: %v", err)
				}
			}
		}
		if err := f.Sync(0); err != nil || !slices.Equal(under.data, plain.data) {
			t.Fatalf("in the end the files differ: %v", err)
		}
	})
}

// TestLogFileGathers writes as a commit does: one write, and it comes before the sync.
func TestLogFileGathers(t *testing.T) {
	t.Parallel()
	under := &memFile{}
	f := &logFile{File: under}
	at := int64(32)
	for range 5 {
		for _, size := range []int64{24, 4096} { // a frame's header and its page
			if _, err := f.WriteAt(make([]byte, size), at); err != nil {
				t.Fatal(err)
			}
			at += size
		}
	}
	if under.writes != 0 {
		t.Errorf("%d writes before the sync", under.writes)
	}
	if err := f.Sync(0); err != nil || under.writes != 1 || under.syncs != 1 {
		t.Errorf("%d writes, %d syncs, %v", under.writes, under.syncs, err)
	}
}

// TestLogFileFails has writes refused: the next call that needs them says so, with
// the code of a write, and a sync that could not write is not done.
func TestLogFileFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file memFile
		want error
	}{
		"broken": {memFile{refuse: syscall.EIO}, vfs.SystemError(syscall.EIO, sqlite3.IOERR_WRITE)},
		"full":   {memFile{refuse: syscall.ENOSPC}, vfs.SystemError(syscall.ENOSPC, sqlite3.FULL)},
		"short":  {memFile{short: true}, vfs.SystemError(io.ErrShortWrite, sqlite3.IOERR_WRITE)},
	} {
		for call, do := range map[string]func(f *logFile) error{
			"sync":     func(f *logFile) error { return f.Sync(0) },
			"read":     func(f *logFile) error { _, err := f.ReadAt(make([]byte, 1), 0); return err },
			"size":     func(f *logFile) error { _, err := f.Size(); return err },
			"truncate": func(f *logFile) error { return f.Truncate(1) },
			"write":    func(f *logFile) error { _, err := f.WriteAt([]byte("y"), 7000); return err },
		} {
			under := c.file
			f := &logFile{File: &under}
			if _, err := f.WriteAt([]byte("x"), 0); err != nil {
				t.Fatal(err)
			}
			if err := do(f); !errors.Is(err, c.want) || under.syncs != 0 {
				t.Errorf("%s, %s: %v after %d syncs, want %v", name, call, err, under.syncs, c.want)
			}
			under.refuse, under.short = nil, false
			if _, err := f.WriteAt([]byte("z"), 0); err != nil {
				t.Errorf("%s, %s: the next transaction: %v", name, call, err)
			}
			if err := f.Sync(0); err != nil || string(under.data) != "z" {
				t.Errorf("%s, %s: then the file holds %q, %v", name, call, under.data, err)
			}
		}
	}
}
