package builtin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool"
)

const (
	maxPatternBytes = 4096
	maxGlobBytes    = 512
	// maxMatchBytes bounds what is shown of one line.
	maxMatchBytes = 300
)

type searchArgs struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path"`
	Glob    string `json:"glob"`
	Max     int    `json:"max"`
}

func (t *Tools) searchTool() tool.Tool {
	return &function[searchArgs]{
		spec: tool.Spec{
			Name: "search",
			Description: "Searches the files below a directory for lines that match a regular expression, shown as path:line: text. " +
				"Binary files, files that are too large, links and .git are skipped; a remark at the end says what was.",
			Schema: []byte(`{"type":"object","properties":{` +
				`"pattern":{"type":"string","minLength":1,"description":"Regular expression in RE2 syntax; (?i) ignores case."},` +
				`"path":{"type":"string","description":"Directory or file relative to the root directory. Default: the root directory."},` +
				`"glob":{"type":"string","description":"Only files whose name matches, for example *.go; with a slash it is matched against the whole path, where ** stands for any directories."},` +
				`"max":{"type":"integer","minimum":1,"description":"Stop after so many matches."}},` +
				`"required":["pattern"],"additionalProperties":false}`),
			Effect:    tool.ReadOnly,
			MaxOutput: maxListText + footer,
		},
		run: t.runSearch,
	}
}

// searching is the state of one search.
type searching struct {
	re   *regexp.Regexp
	glob string
	max  int

	out                              strings.Builder
	matches, files                   int // found; files that were searched
	binary, large, links, unreadable int // skipped
	full                             bool
}

func (t *Tools) runSearch(ctx context.Context, _ *tool.Call, a searchArgs) (string, error) {
	const op = "search"
	s := searching{glob: a.Glob, max: t.cfg.MaxSearchMatches}
	switch {
	case a.Pattern == "" || len(a.Pattern) > maxPatternBytes:
		return "", failure(rouse.CodeInvalid, op, "the pattern has between 1 and %d bytes", maxPatternBytes)
	case len(a.Glob) > maxGlobBytes:
		return "", failure(rouse.CodeInvalid, op, "the glob has at most %d bytes", maxGlobBytes)
	case a.Max < 0:
		return "", failure(rouse.CodeInvalid, op, "max counts from 1")
	case a.Max > 0:
		s.max = min(s.max, a.Max)
	}
	if _, err := path.Match(a.Glob, ""); err != nil {
		return "", failure(rouse.CodeInvalid, op, "the glob %s is malformed", show(a.Glob))
	}
	var err error
	if s.re, err = regexp.Compile(a.Pattern); err != nil {
		return "", &rouse.Error{Code: rouse.CodeInvalid, Op: op, Message: "the pattern is not a regular expression in RE2 syntax",
			Hint: "there are no look-arounds and no back-references; escape literal brackets", Err: err}
	}
	if a.Path == "" {
		a.Path = "."
	}
	rel, err := clean(op, a.Path)
	if err != nil {
		return "", err
	}
	fi, err := t.root.Stat(rel)
	if err != nil {
		return "", t.pathError(op, rel, err)
	}
	w := walk{tools: t, op: op, depth: maxDepth, budget: t.cfg.MaxSearchFiles}
	if fi.IsDir() {
		err = w.run(ctx, rel, func(rel string, fi fs.FileInfo) bool {
			if fi.Mode()&fs.ModeSymlink != 0 {
				s.links++
			} else if fi.Mode().IsRegular() && s.wanted(rel) {
				_ = t.searchFile(ctx, &s, rel) // counted as unreadable
			}
			return !s.full && ctx.Err() == nil
		})
	} else {
		err = t.searchFile(ctx, &s, rel)
	}
	if ctx.Err() != nil {
		return "", stopped(ctx, op)
	}
	if err != nil {
		return "", err
	}
	return s.text(&w), nil
}

// wanted reports whether the glob lets rel through.
func (s *searching) wanted(rel string) bool {
	switch {
	case s.glob == "":
		return true
	case strings.Contains(s.glob, "/"):
		return matchPath(strings.Split(s.glob, "/"), strings.Split(rel, "/"))
	}
	ok, err := path.Match(s.glob, path.Base(rel))
	return ok && err == nil
}

// matchPath matches path elements with a pattern in which ** stands for any
// number of them. It takes time proportional to the product of the lengths.
func matchPath(pattern, elems []string) bool {
	p, e := 0, 0
	star, from := -1, 0 // the last ** and the element it reaches to
	for e < len(elems) {
		if p < len(pattern) && pattern[p] == "**" {
			star, from = p, e
			p++
			continue
		}
		if p < len(pattern) {
			if ok, err := path.Match(pattern[p], elems[e]); ok && err == nil {
				p, e = p+1, e+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		p, e = star+1, from
	}
	for p < len(pattern) && pattern[p] == "**" {
		p++
	}
	return p == len(pattern)
}

// searchFile adds the matches of one file, or counts why it was skipped. The
// error matters only when the file was named by the model.
func (t *Tools) searchFile(ctx context.Context, s *searching, rel string) error {
	f, fi, err := t.open("search", rel)
	if err != nil {
		s.unreadable++
		return err
	}
	defer release(f)
	if fi.Size() > t.cfg.MaxFileBytes {
		s.large++
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(f, t.cfg.MaxFileBytes+1))
	switch {
	case err != nil:
		s.unreadable++
		return t.pathError("search", rel, err)
	case int64(len(data)) > t.cfg.MaxFileBytes: // it has grown
		s.large++
		return nil
	case bytes.IndexByte(data, 0) >= 0:
		s.binary++
		return nil
	}
	s.files++
	for n := 1; len(data) > 0 && !s.full; n++ {
		if n%256 == 0 && ctx.Err() != nil {
			return stopped(ctx, "search")
		}
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		data = rest
		line = bytes.TrimSuffix(line, []byte("\r"))
		if at := s.re.FindIndex(line); at != nil {
			s.add(rel, n, line, at[0])
		}
	}
	return nil
}

// add shows a line; of a long one, the part around the match.
func (s *searching) add(rel string, n int, line []byte, at int) {
	before, after := "", ""
	if len(line) > maxMatchBytes {
		start := max(0, min(at-maxMatchBytes/4, len(line)-maxMatchBytes))
		if start > 0 {
			before = "..."
		}
		if start+maxMatchBytes < len(line) {
			after = "..."
		}
		line = line[start:min(len(line), start+maxMatchBytes)]
		for len(before) > 0 && len(line) > 0 && line[0]&0xC0 == 0x80 {
			line = line[1:] // the rest of a rune
		}
		line = wholeRunes(line)
	}
	text, _ := validText(line)
	row := fmt.Sprintf("%s:%d: %s%s%s\n", show(rel), n, before, text, after)
	if s.matches >= s.max || s.out.Len()+len(row) > maxListText {
		s.full = true
		return
	}
	s.matches++
	s.out.WriteString(row)
}

func (s *searching) text(w *walk) string {
	w.unreadable += s.unreadable
	notes := w.notes()
	for _, n := range []struct {
		count int
		what  string
	}{{s.binary, "binary"}, {s.large, "too large"}, {s.links, "links"}, {w.deep, "directories too deep"}} {
		if n.count > 0 {
			notes = append(notes, fmt.Sprintf("%d %s", n.count, n.what))
		}
	}
	fmt.Fprintf(&s.out, "[matches: %d; files searched: %d", s.matches, s.files)
	if len(notes) > 0 {
		s.out.WriteString("; skipped: " + strings.Join(notes, ", "))
	}
	if s.full {
		s.out.WriteString("; stopped at the limit, there are more matches: narrow the pattern, the path or the glob")
	}
	s.out.WriteString("]\n")
	return s.out.String()
}
