package shardkey

import (
	"bytes"

	"shardway/internal/problem"
	"shardway/keysource"
	"shardway/proxy/wrapkey"
)

// findWrapped is like Find, for a configuration with wrapped fields. It also finds the suffixes of all
// wrapped fields, which the app must not receive.
func (e *Extractor) findWrapped(sources *keysource.SourceList, gateway bool, body *Body) (Found, *problem.Problem) {
	e.wrapped = wrapkey.NewRequest(e.Codec, e.Keys.wrapped)
	e.readWrappedHeaders()
	e.readWrappedCookies()
	if e.wrapped.HasTwoKeys(sources.Sources) {
		return Found{}, ambiguityProblem(detailTwoKeys, sources.Description)
	}
	found, invalid := e.findInSources(sources, gateway, body)
	found.Wrapped = e.wrapped
	var created []byte
	if found.Minted || found.isWrapped {
		created = found.Key
	}
	e.wrapped.Bind(sources.Sources, created)
	return found, invalid
}

// wrappedKey returns the key in the suffix of a wrapped field. It returns nil if there is none. If problemText is
// not empty, the request must be refused.
func (e *Extractor) wrappedKey(source *keysource.Source) (key []byte, problemText string) {
	switch reading, key := e.wrapped.Read(source); reading {
	case wrapkey.Wrapped:
		return key, ""
	case wrapkey.TwoKeys:
		return nil, detailTwoKeys
	case wrapkey.NotForApp:
		return nil, detailHopByHopKey
	case wrapkey.Absent, wrapkey.Plain:
	}
	return nil, ""
}

// mustCreateWrappedKey reports whether a request without a key gets a new key. It does if some of its sources are
// wrapped fields and the request contains none of these fields, because the app may then create a session.
func (e *Extractor) mustCreateWrappedKey(sources *keysource.SourceList) bool {
	if e.wrapped == nil || e.isPreflight() { // a preflight creates nothing
		return false
	}
	mustCreate := false
	for i := range sources.Sources {
		if source := &sources.Sources[i]; source.Kind == keysource.Wrap {
			if reading, _ := e.wrapped.Read(source); reading != wrapkey.Absent {
				return false
			}
			mustCreate = true
		}
	}
	return mustCreate
}

// readWrappedHeaders reads the values of the wrapped headers.
func (e *Extractor) readWrappedHeaders() {
	for field, name := range e.Keys.wrapped.Names(keysource.Header) {
		for i := e.Request.FindLookalike(name, 0); i >= 0; i = e.Request.FindLookalike(name, i+1) {
			_, value := e.Request.Field(i)
			suffixLen := e.wrapped.Add(field, value)
			switch {
			case e.Request.IsConnectionOption(i):
				e.wrapped.MarkRemoved(field)
			case suffixLen > 0:
				e.wrapped.Replace(i, value[:len(value)-suffixLen])
			}
		}
	}
}

// readWrappedCookies reads the values of the wrapped cookies. It splits Cookie lines like cookieValue.
func (e *Extractor) readWrappedCookies() {
	for i := e.Request.Find("Cookie", 0); i >= 0; i = e.Request.Find("Cookie", i+1) {
		_, line := e.Request.Field(i)
		var stripped []byte
		copied := 0 // number of bytes of line that stripped contains, without suffixes
		for start := 0; start <= len(line); {
			end := len(line)
			if length := bytes.IndexByte(line[start:], ';'); length >= 0 {
				end = start + length
			}
			if suffixStart, suffixEnd := e.readWrappedPair(i, line[start:end]); suffixEnd > 0 {
				stripped = append(stripped, line[copied:start+suffixStart]...)
				copied = start + suffixEnd
			}
			start = end + 1
		}
		if copied > 0 {
			e.wrapped.Replace(i, append(stripped, line[copied:]...))
		}
	}
}

// readWrappedPair reads one pair of Cookie line i. It returns the offsets in the pair at which its suffix
// starts and ends, or 0 if the pair has no suffix, or the app does not receive the line.
func (e *Extractor) readWrappedPair(i int, untrimmed []byte) (suffixStart, suffixEnd int) {
	pair := bytes.TrimLeft(untrimmed, blanks)
	offset := len(untrimmed) - len(pair)
	pair = bytes.TrimRight(pair, blanks)
	cookieName, text, _ := bytes.Cut(pair, []byte("="))
	for field, name := range e.Keys.wrapped.Names(keysource.Cookie) {
		if isReadDifferently(pair, cookieName, text, name) {
			e.wrapped.MarkAmbiguous(field)
		}
		if isOtherCase(cookieName, name) {
			e.wrapped.MarkOtherCase(field)
		}
		value := wrapkey.Unquote(text)
		if string(cookieName) != name || len(value) == 0 {
			continue
		}
		suffixLen := e.wrapped.Add(field, value)
		if e.Request.IsConnectionOption(i) {
			e.wrapped.MarkRemoved(field)
			continue
		}
		if suffixLen > 0 {
			quotesAfter := (len(text) - len(value)) / 2
			suffixEnd = offset + len(pair) - quotesAfter
			suffixStart = suffixEnd - suffixLen
		}
	}
	return suffixStart, suffixEnd
}
