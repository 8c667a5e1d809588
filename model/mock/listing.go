package mock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// entry is one name of a directory; size is -1 when it is not known.
type entry struct {
	name string
	dir  bool
	size int64
}

// maxEntries bounds how much of a listing the demo looks at.
const maxEntries = 1000

// parseListing reads a directory listing in whatever form a tool gives it: JSON
// (an array of names or of objects, alone or as a member of an object), or lines
// with a name and perhaps a size, a kind, a trailing slash.
func parseListing(s string) []entry {
	if es, ok := parseJSONListing([]byte(s), 0); ok {
		return es
	}
	if isObject([]byte(s)) { // an object without a listing is an empty one
		return nil
	}
	var es []entry
	for line := range strings.Lines(s) {
		if isRemark(line) {
			continue
		}
		if e, ok := parseLine(line); ok && len(es) < maxEntries {
			es = append(es, e)
		}
	}
	return es
}

// listNames are members under which a listing may hide, in order of preference.
func listNames() []string {
	return []string{"entries", "files", "items", "children", "names", "result", "output"}
}

// parseJSONListing looks for the listing at most two objects deep.
func parseJSONListing(b []byte, depth int) ([]entry, bool) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || depth > 2 {
		return nil, false
	}
	switch b[0] {
	case '[':
		var items []json.RawMessage
		if json.Unmarshal(b, &items) != nil {
			return nil, false
		}
		es := []entry{}
		for _, it := range items[:min(len(items), maxEntries)] {
			if e, ok := parseItem(it); ok {
				es = append(es, e)
			}
		}
		return es, true
	case '{':
		var members map[string]json.RawMessage
		if json.Unmarshal(b, &members) != nil {
			return nil, false
		}
		for _, name := range listNames() {
			if es, ok := parseJSONListing(members[name], depth+1); ok {
				return es, true
			}
		}
	case '"':
		var text string
		if json.Unmarshal(b, &text) == nil {
			return parseListing(text), true
		}
	}
	return nil, false
}

// parseItem reads a name, or an object with a name.
func parseItem(b json.RawMessage) (entry, bool) {
	var name string
	if json.Unmarshal(b, &name) == nil {
		return newEntry(name, false, -1)
	}
	var o struct {
		Name  string          `json:"name"`
		Path  string          `json:"path"`
		Type  string          `json:"type"`
		Kind  string          `json:"kind"`
		Dir   bool            `json:"dir"`
		IsDir bool            `json:"is_dir"`
		Size  json.RawMessage `json:"size"`
		Bytes json.RawMessage `json:"bytes"`
	}
	if json.Unmarshal(b, &o) != nil {
		return entry{}, false
	}
	if o.Name == "" {
		o.Name = o.Path
	}
	size := int64(-1)
	for _, raw := range []json.RawMessage{o.Size, o.Bytes} {
		if n, ok := parseSize(strings.Trim(string(raw), `"`)); ok {
			size = n
		}
	}
	return newEntry(o.Name, o.Dir || o.IsDir || isDirWord(o.Type) || isDirWord(o.Kind), size)
}

func isDirWord(s string) bool {
	switch strings.ToLower(s) {
	case "d", "dir", "dir:", "directory", "folder", "[dir]", "<dir>", "(dir)", "(directory)":
		return true
	}
	return false
}

// isRemark reports whether a line is a tool's remark about its output.
func isRemark(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]")
}

func isFileWord(s string) bool {
	switch strings.ToLower(s) {
	case "-", "f", "l", "link", "file", "file:", "[file]", "(file)":
		return true
	}
	return false
}

func newEntry(name string, dir bool, size int64) (entry, bool) {
	name = strings.TrimSpace(name)
	if q, err := strconv.Unquote(name); err == nil {
		name = q
	}
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "./"), " -> ") // where a link leads
	if n, ok := strings.CutSuffix(name, "/"); ok {
		name, dir = n, true
	}
	return entry{name, dir, size}, name != "" && name != "." && name != ".."
}

// What lines of a listing look like: the long form of ls, fields with gaps
// between them, a size at the end, a size alone.
var (
	longLine  = regexp.MustCompile(`^([-dl])[-rwxsStT]{9}\S* +\d+ +\S+ +\S+ +(\d+) +\S+ +\S+ +\S+ (.+)$`)
	fieldGap  = regexp.MustCompile(`\t+| {2,}`)
	sizeInEnd = regexp.MustCompile(`(?i)^(.+?)[\s,:]+\(?([\d.]+ ?(?:bytes?|[kmg]i?b?|b)?)\)?$`)
	sizeText  = regexp.MustCompile(`(?i)^\(?([\d.]+) ?(bytes?|b|[kmg]i?b?)?\)?$`)
)

func parseLine(line string) (e entry, ok bool) {
	line = strings.TrimSpace(line)
	if m := longLine.FindStringSubmatch(line); m != nil {
		n, _ := parseSize(m[2]) // digits only
		return newEntry(m[3], m[1] == "d", n)
	}
	line = strings.TrimPrefix(strings.TrimPrefix(line, "- "), "* ")
	size, dir, name := int64(-1), false, ""
	fields := fieldGap.Split(line, -1)
	if len(fields) == 1 {
		fields = splitWords(line)
	}
	for _, f := range fields {
		f = strings.TrimSpace(f)
		n, isSize := parseSize(f)
		switch {
		case isDirWord(f):
			dir = true
		case isFileWord(f):
		case isSize && size < 0:
			size = n
		case name == "":
			name = f
		}
	}
	if name == "" && len(fields) == 1 { // a name of digits only, or one like "dir"
		name, size, dir = fields[0], -1, false
	}
	return newEntry(name, dir, size)
}

// splitWords splits "dir sub", "12 a.txt" and "a.txt (12 bytes)" into fields and
// leaves a name with spaces whole.
func splitWords(line string) []string {
	var fields []string
	for {
		first, rest, ok := strings.Cut(line, " ")
		if _, isSize := parseSize(first); !ok || !isSize && !isDirWord(first) && !isFileWord(first) {
			break
		}
		fields, line = append(fields, first), strings.TrimSpace(rest)
	}
	if m := sizeInEnd.FindStringSubmatch(line); m != nil {
		return append(fields, m[1], m[2])
	}
	if i := strings.LastIndexByte(line, ' '); i > 0 && isDirWord(line[i+1:]) {
		return append(fields, line[:i], line[i+1:])
	}
	return append(fields, line)
}

// parseSize reads a number of bytes, perhaps with a unit.
func parseSize(s string) (int64, bool) {
	m := sizeText.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, false
	}
	if m[2] != "" {
		switch strings.ToLower(m[2])[0] {
		case 'k':
			f *= 1 << 10
		case 'm':
			f *= 1 << 20
		case 'g':
			f *= 1 << 30
		}
	}
	return int64(min(f, 1<<60)), true
}

func (e entry) String() string {
	switch {
	case e.dir:
		return e.name + "/"
	case e.size >= 0:
		return fmt.Sprintf("%s (%s)", e.name, count(int(e.size), "byte", "bytes"))
	default:
		return e.name
	}
}
