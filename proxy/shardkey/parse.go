package shardkey

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/valyala/fasthttp"
)

// The functions of this file read a key from one part of a request. Spellings that every app reads
// as the same value give the same key: queries are percent-decoded, host names are converted to
// lower case. They return nil if there is no key. dst is scratch memory for the result.

// queryValue returns the first non-empty value of a query parameter, in dst. same reports whether no other value
// differs from it. This also holds for apps that split a query at semicolons (Rack before 3, Python before 3.10,
// CGI.pm).
//
// fasthttp.Args is used for one pair at a time, because for a whole query it would retain about 60 bytes per pair.
// Its handling of repeated parameters and semicolons is not used.
func queryValue(dst, query []byte, name string) (value []byte, same bool) {
	args := fasthttp.AcquireArgs()
	defer fasthttp.ReleaseArgs(args)
	same = true
	for pair := range bytes.SplitSeq(query, []byte("&")) {
		next, unambiguous := pairValue(args, pair, name)
		same = same && unambiguous
		switch {
		case next == nil:
		case value == nil:
			value = append(dst[:0], next...)
		default:
			same = same && bytes.Equal(next, value)
		}
	}
	if bytes.IndexByte(query, ';') >= 0 {
		same = same && isSameWithSemicolons(args, query, name, value)
	}
	return value, same
}

// isSameWithSemicolons reports whether a parser that also splits the query at semicolons finds value, and no other
// non-empty value of the parameter. If value is nil, it must find none.
func isSameWithSemicolons(args *fasthttp.Args, query []byte, name string, value []byte) bool {
	found := false
	isSeparator := func(r rune) bool { return r == '&' || r == ';' }
	for pair := range bytes.FieldsFuncSeq(query, isSeparator) {
		next, _ := pairValue(args, pair, name)
		if next == nil {
			continue
		}
		if !bytes.Equal(next, value) {
			return false
		}
		found = true
	}
	return found == (value != nil)
}

// pairValue returns the value of a pair, or nil if it is empty or has another name. unambiguous is false if the
// pair ends in "%+": Args keeps that plus sign, while other parsers read a space. (A name that ends so cannot be
// configured.)
func pairValue(args *fasthttp.Args, pair []byte, name string) (value []byte, unambiguous bool) {
	args.ParseBytes(pair)
	if value = args.Peek(name); len(value) == 0 {
		return nil, true
	}
	incompleteEscape := []byte("%+")
	rawName, rawValue, _ := bytes.Cut(pair, []byte("="))
	return value, !bytes.HasSuffix(rawName, incompleteEscape) && !bytes.HasSuffix(rawValue, incompleteEscape)
}

// cookieValue returns the first non-empty value of a cookie in one Cookie field. same reports whether no other
// value differs from it. Apps that skip blanks next to the equals sign (Go, Django, Express) or split cookies at
// blanks (Python's http.cookies) may see a different key; same is then false.
func cookieValue(field []byte, name string) (value []byte, same bool) {
	same = true
	for pair := range bytes.SplitSeq(field, []byte(";")) {
		pair = bytes.Trim(pair, blanks)
		cookieName, text, _ := bytes.Cut(pair, []byte("="))
		switch {
		case string(cookieName) != name || len(text) == 0:
		case value == nil:
			value = text
		default:
			same = same && bytes.Equal(text, value)
		}
		same = same && !isReadDifferently(pair, cookieName, text, name)
	}
	return value, same
}

// blanks are the white space of RFC 9110.
const blanks = " \t"

// isReadDifferently reports whether some parsers find the cookie name in a pair of a Cookie field while others do
// not, or find a different value. pair consists of cookieName, an equals sign and text, without blanks around it.
func isReadDifferently(pair, cookieName, text []byte, name string) bool {
	isExact := string(cookieName) == name
	if isExact && len(trimSpace(text)) < len(text) || !isExact && isCookieLookalike(cookieName, name) {
		return true
	}
	isQuoted := len(text) > 1 && text[0] == '"' && bytes.IndexByte(text[1:], '"') == len(text)-2
	if isQuoted { // no parser splits at blanks within quotes
		pair = pair[:len(cookieName)+1]
	}
	if hasCookieAfterComma(pair, name) {
		return true
	}
	if !bytes.ContainsAny(pair, blanks) {
		return false
	}
	// Search for `name =` at the start of the pair and after each blank.
	for {
		afterName, startsWithName := bytes.CutPrefix(pair, []byte(name))
		if startsWithName && bytes.HasPrefix(bytes.TrimLeft(afterName, blanks), []byte("=")) {
			return true
		}
		blankAt := bytes.IndexAny(pair, blanks)
		if blankAt < 0 {
			return false
		}
		pair = bytes.TrimLeft(pair[blankAt:], blanks)
	}
}

// hasCookieAfterComma reports whether the cookie name follows a comma. Some parsers split cookies at commas
// (CGI.pm, Rack before 2), as RFC 2109 requires.
func hasCookieAfterComma(pair []byte, name string) bool {
	for {
		comma := bytes.IndexByte(pair, ',')
		if comma < 0 {
			return false
		}
		pair = bytes.TrimLeft(pair[comma+1:], blanks)
		afterName, startsWithName := bytes.CutPrefix(pair, []byte(name))
		if startsWithName && bytes.HasPrefix(bytes.TrimLeft(afterName, blanks), []byte("=")) {
			return true
		}
	}
}

// isCookieLookalike reports whether some apps read a cookie under a different name. Express, Django and Flask
// remove Unicode white space around it. PHP replaces blanks, dots and brackets with underscores, and reads a[b] as
// a member of a.
func isCookieLookalike(cookieName []byte, name string) bool {
	cookieName = trimSpace(cookieName)
	if len(cookieName) < len(name) || len(cookieName) > len(name) && cookieName[len(name)] != '[' {
		return false
	}
	for i := range len(name) {
		c := cookieName[i]
		isReplaced := name[i] == '_' && (c == ' ' || c == '.' || c == '[')
		if c != name[i] && !isReplaced {
			return false
		}
	}
	return true
}

// isOtherCase reports whether two different names are equal to apps that ignore case, such as ASP.NET.
func isOtherCase(cookieName []byte, name string) bool {
	return len(cookieName) == len(name) && string(cookieName) != name && bytes.EqualFold(cookieName, []byte(name))
}

// trimSpace removes Unicode white space and byte order marks around text. Apps decode text as UTF-8, or as
// Latin-1 if it is not valid UTF-8.
func trimSpace(text []byte) []byte {
	if n := len(text); n == 0 || text[0] < utf8.RuneSelf && text[n-1] < utf8.RuneSelf {
		return text // the caller has removed blanks
	}
	if utf8.Valid(text) {
		return bytes.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' })
	}
	isLatin1Space := func(c byte) bool { return unicode.IsSpace(rune(c)) }
	for len(text) > 0 && isLatin1Space(text[0]) {
		text = text[1:]
	}
	for len(text) > 0 && isLatin1Space(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	return text
}

// hostName returns a Host field in lower case, without its port and final dot.
func hostName(dst, host []byte) []byte {
	colon := bytes.LastIndexByte(host, ':')
	startsPort := colon >= 0 && bytes.IndexByte(host[colon:], ']') < 0 // the colons of [IPv6] do not
	if startsPort {
		host = host[:colon]
	}
	host = bytes.TrimSuffix(host, []byte("."))
	dst = dst[:0]
	for _, c := range host {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		dst = append(dst, c)
	}
	return orNil(dst)
}

// hostLabel returns a label of a host name, counted from 1 at its left end, or nil if there is none. An
// IP address has no labels.
func hostLabel(name []byte, number int) []byte {
	if isAddress(name) {
		return nil
	}
	for label := range bytes.SplitSeq(name, []byte(".")) {
		if number--; number == 0 {
			return orNil(label)
		}
	}
	return nil
}

// isAddress reports whether a host is an IP address: an IPv6 address in brackets, or a name whose last
// label is a number, which is an IPv4 address for browsers (WHATWG URL, section 3.5).
func isAddress(host []byte) bool {
	if len(host) == 0 || host[0] == '[' {
		return true
	}
	lastLabel := host[bytes.LastIndexByte(host, '.')+1:]
	digits, isHex := bytes.CutPrefix(lastLabel, []byte("0x"))
	for _, c := range digits {
		isDigit := c >= '0' && c <= '9' || isHex && c >= 'a' && c <= 'f'
		if !isDigit {
			return false
		}
	}
	return len(lastLabel) > 0
}

// orNil returns text, or nil if it is empty.
func orNil(text []byte) []byte {
	if len(text) == 0 {
		return nil
	}
	return text
}
