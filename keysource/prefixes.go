package keysource

import (
	"slices"
	"strconv"

	"shardway/internal/valueerr"
)

// Prefixes maps the path of a request to the longest matching path prefix of a list. It is for settings
// other than key sources, which differ by path.
type Prefixes struct {
	ordered []indexedPrefix // longest first
}

// indexedPrefix is a decoded prefix, and its index in the list of NewPrefixes.
type indexedPrefix struct {
	prefix string
	index  int
}

// NewPrefixes parses a list of prefixes. The error is a *valueerr.Error whose Key is "routes".
func NewPrefixes(list []string) (*Prefixes, error) {
	result := &Prefixes{}
	first := make(map[string]string, len(list)) // original text by parsed prefix
	for i, text := range list {
		prefix, err := parsePrefix(text)
		if err != nil {
			return nil, err
		}
		if earlier, isDuplicate := first[prefix]; isDuplicate {
			return nil, &valueerr.Error{
				Key: "routes", Value: text, Wrong: strconv.Quote(text) + " is the same path prefix as " + strconv.Quote(earlier), Remedy: "keep one of them",
			}
		}
		first[prefix] = text
		result.ordered = append(result.ordered, indexedPrefix{prefix, i})
	}
	slices.SortStableFunc(result.ordered, func(a, b indexedPrefix) int { return len(b.prefix) - len(a.prefix) })
	return result, nil
}

// Match returns the index of the longest prefix that matches the path, or -1. unambiguous is false if
// another app may parse the path differently, so that another prefix could match. An app that ignores the
// case of letters, such as Express, could match a longer prefix.
func (p *Prefixes) Match(path *ParsedPath) (index int, unambiguous bool) {
	if path.hasDotSegment {
		return -1, false
	}
	otherCase := "" // longest prefix that matches only if the case of letters is ignored
	for _, candidate := range p.ordered {
		switch {
		case hasPathPrefix(candidate.prefix, path.decoded):
			return candidate.index, path.agreesOn(candidate.prefix) && len(otherCase) <= len(candidate.prefix)
		case otherCase == "" && hasPathPrefixInOtherCase(candidate.prefix, path.decoded):
			otherCase = candidate.prefix
		}
	}
	return -1, otherCase == ""
}

// Enclosing yields the indexes of the prefixes that contain the prefix with the given index, longest
// first, beginning with itself.
func (p *Prefixes) Enclosing(index int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		at := slices.IndexFunc(p.ordered, func(candidate indexedPrefix) bool { return candidate.index == index })
		inner := []byte(p.ordered[at].prefix)
		for _, candidate := range p.ordered[at:] {
			if hasPathPrefix(candidate.prefix, inner) && !yield(candidate.index) {
				return
			}
		}
	}
}
