package shardkey

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"shardway/internal/fieldname"
	"shardway/keysource"
	"shardway/keysource/jsonkey"
)

// maxBodyKey is the maximum size in bytes of a key in a body. Other keys are limited by the maximum
// size of the header section, in which each byte of a key may take three bytes.
const maxBodyKey = 2 << 10

// Problem details for requests whose bodies apps may read differently.
const (
	detailContentType = "a Content-Type that apps may read differently for "
	detailMultipart   = "a multipart/form-data body, in which no key is looked for, for "
	detailBOM         = "a byte order mark at the start of the body for "
	detailFormControl = "a control character in the form for "
	detailFormName    = "a form field whose name some apps read as the name of the key for "
	detailFormValue   = "a value with an invalid escape, invalid UTF-8 or a NUL for "
	detailFormQuery   = "a query parameter that some apps read instead of "
	detailLongKey     = "a key of more than 2048 bytes in "
)

// Body is the part of a request body that the node has read to find the key.
type Body struct {
	// Data is the whole body if IsComplete is set.
	Data []byte
	// IsComplete is false if the body is too large to be read before the request is routed. Key
	// sources in the body then have no value.
	IsComplete bool
}

// bodyFormat is the format of a body according to its Content-Type.
type bodyFormat uint8

const (
	formatOther bodyFormat = iota // neither JSON nor a form, or no Content-Type
	formatJSON
	formatForm      // application/x-www-form-urlencoded
	formatMultipart // multipart/form-data
	formatUnclear   // apps may disagree on the format
)

// bodyKey returns the key that a source finds in the body, or nil if it finds none. body is nil if
// the body has not been read; then needsBody reports whether the source must read it. If the request
// must be refused, problemText is the reason.
func (e *Extractor) bodyKey(source *keysource.Source, body *Body) (key []byte, needsBody bool, problemText string) {
	if e.hasNoBody(body) {
		return nil, false, ""
	}
	isReadable, problemText := e.isBodyReadable(source)
	switch {
	case !isReadable:
		return nil, false, problemText
	case body == nil:
		return nil, true, ""
	case !body.IsComplete:
		return nil, false, ""
	}
	if source.Kind == keysource.JSON {
		document, err := jsonkey.Find(e.Grow(maxBodyKey), body.Data, source.Name)
		if err != nil {
			return nil, false, err.Error() + " for "
		}
		key = document
	} else {
		key, problemText = formKey(e.Grow(len(body.Data)), body.Data, source.Name)
		if problemText == "" && key != nil && hasOtherParameter(e.Request.Query(), source.Name, key) {
			problemText = detailFormQuery
		}
	}
	if len(key) > maxBodyKey {
		return nil, false, detailLongKey
	}
	return key, false, problemText
}

// hasNoBody reports whether the request has no body, or an empty one.
func (e *Extractor) hasNoBody(body *Body) bool {
	if body != nil {
		return body.IsComplete && len(body.Data) == 0
	}
	return e.Request.Body.Done() && e.Request.Body.Received() == 0
}

// isBodyReadable reports whether the header permits the source to read the body. If the header is
// ambiguous, problemText is the reason.
func (e *Extractor) isBodyReadable(source *keysource.Source) (isReadable bool, problemText string) {
	isEncoded, problemText := e.hasContentEncoding()
	if problemText != "" || isEncoded {
		return false, problemText
	}
	format, problemText := e.bodyFormat()
	isJSON, isForm := source.Kind == keysource.JSON, source.Kind == keysource.Form
	switch {
	case problemText != "":
		return false, problemText
	case isForm && format == formatMultipart:
		return false, detailMultipart
	}
	return isJSON && format == formatJSON || isForm && format == formatForm, ""
}

// hasContentEncoding reports whether the request has a Content-Encoding other than identity. Such a
// body is not read, because the key is in its decoded form. Names like Content_Encoding count too,
// because CGI and WSGI apps read them as Content-Encoding. Fields that the node removes do not count,
// because the app does not receive them. If the client has listed the field in Connection,
// problemText refuses the request: the node does not forward the field, so the app would read the
// body in another way than the client meant it.
func (e *Extractor) hasContentEncoding() (isEncoded bool, problemText string) {
	const name = "Content-Encoding"
	for i := e.Request.FindLookalike(name, 0); i >= 0; i = e.Request.FindLookalike(name, i+1) {
		_, value := e.Request.Field(i)
		if len(value) == 0 || bytes.EqualFold(value, []byte("identity")) || e.removedFields().Has(e.Request.KnownField(i)) {
			continue
		}
		if e.Request.IsConnectionOption(i) {
			return false, detailHopByHopKey
		}
		isEncoded = true
	}
	return isEncoded, ""
}

// bodyFormat returns the format of the body. If apps may disagree on it, problemText is the reason: an
// app that reads another format finds another key. The rules for names like Content_Type, for removed
// fields and for Connection are those of hasContentEncoding.
func (e *Extractor) bodyFormat() (format bodyFormat, problemText string) {
	const name = "Content-Type"
	lines := 0
	for i := e.Request.FindLookalike(name, 0); i >= 0; i = e.Request.FindLookalike(name, i+1) {
		if e.removedFields().Has(e.Request.KnownField(i)) {
			continue
		}
		if e.Request.IsConnectionOption(i) {
			return formatUnclear, detailHopByHopKey
		}
		if lines++; lines > 1 {
			return formatUnclear, detailContentType
		}
		_, value := e.Request.Field(i)
		format = formatOf(value)
	}
	if format == formatUnclear {
		problemText = detailContentType
	}
	return format, problemText
}

// formatOf returns the format of a Content-Type value. The format is unclear if the value names
// JSON or a form in an unusual way, or a character set other than UTF-8.
func formatOf(contentType []byte) bodyFormat {
	contentType = bytes.ToLower(contentType)
	mediaType, parameters, hasParameters := bytes.Cut(contentType, []byte(";"))
	mediaType = bytes.TrimRight(mediaType, blanks)
	format := formatOther
	switch kind, subtype, _ := bytes.Cut(mediaType, []byte("/")); {
	case string(mediaType) == "application/json" || fieldname.IsToken(kind) && fieldname.IsToken(subtype) && bytes.HasSuffix(subtype, []byte("+json")):
		format = formatJSON
	case string(mediaType) == "application/x-www-form-urlencoded":
		format = formatForm
	case string(mediaType) == "multipart/form-data":
		return formatMultipart // the body is not read, so its parameters do not count
	}
	switch {
	case format == formatOther && !bytes.Contains(contentType, []byte("json")) && !bytes.Contains(contentType, []byte("form-")) && !bytes.Contains(contentType, []byte("-form")):
		return formatOther
	case format == formatOther || hasParameters && !areClearParameters(parameters):
		return formatUnclear
	}
	return format
}

// areClearParameters reports whether all parsers read the same parameters from the rest of a
// Content-Type, which must be lowercase, and the character set is UTF-8.
func areClearParameters(parameters []byte) bool {
	if isSemicolonAtEnd := len(bytes.Trim(parameters, blanks)) == 0; isSemicolonAtEnd {
		return true
	}
	var names [][]byte
	for parameter := range bytes.SplitSeq(parameters, []byte(";")) {
		name, value, _ := bytes.Cut(bytes.Trim(parameter, blanks), []byte("="))
		if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		isRepeated := slices.ContainsFunc(names, func(other []byte) bool { return bytes.Equal(other, name) })
		isOtherCharset := string(name) == "charset" && string(value) != "utf-8" && string(value) != "utf8"
		if !fieldname.IsToken(name) || !fieldname.IsToken(value) || isRepeated || isOtherCharset {
			return false
		}
		names = append(names, name)
	}
	return true
}

// formKey returns the first non-empty value of a form field, in dst. The rules are those of queryValue.
// In addition, it reports a problem if the form has a field whose name some apps change to this name.
func formKey(dst, body []byte, name string) (key []byte, problemText string) {
	if bytes.HasPrefix(body, []byte("\ufeff")) {
		return nil, detailBOM
	}
	for _, c := range body {
		if c < ' ' || c == 0x7f { // some parsers remove line breaks at the end, others keep them
			return nil, detailFormControl
		}
	}
	if hasLookalikeField(body, name) {
		return nil, detailFormName
	}
	if hasUnclearValue(body, name) {
		return nil, detailFormValue
	}
	value, same := queryValue(dst, body, name)
	if !same {
		return nil, detailTwoKeys
	}
	return value, ""
}

// hasLookalikeField reports whether a form has a field with another name that some apps read as the
// given name. ASP.NET ignores case. PHP removes blanks at the start, and replaces blanks and dots. PHP,
// Rails and Express read a[b] as a member of a. C libraries end a name at a NUL.
func hasLookalikeField(body []byte, name string) bool {
	isNested := strings.Contains(name, "[")
	wanted := foldFieldName([]byte(name), isNested)
	for pair := range bytes.FieldsFuncSeq(body, isFormSeparator) {
		raw, _, _ := bytes.Cut(pair, []byte("="))
		decoded := unescapeForm(raw)
		if string(decoded) != name && bytes.EqualFold(foldFieldName(decoded, isNested), wanted) {
			return true
		}
	}
	return false
}

// hasOtherParameter reports whether a query has the parameter with a value other than key. Apps may
// read the parameter instead of the form field: servlets and Flask prefer it, and PHP and Go ignore
// forms of some methods.
func hasOtherParameter(query []byte, name string, key []byte) bool {
	if len(query) == 0 {
		return false
	}
	value, same := queryValue(nil, query, name)
	return !same || value != nil && !bytes.Equal(value, key) || hasLookalikeField(query, name)
}

// hasUnclearValue reports whether some apps read a different value for a form field. Express does
// not decode a value with an invalid escape, and Go ignores it. Java replaces invalid UTF-8, and C
// libraries end a value at a NUL.
func hasUnclearValue(body []byte, name string) bool {
	for pair := range bytes.FieldsFuncSeq(body, isFormSeparator) {
		rawName, rawValue, _ := bytes.Cut(pair, []byte("="))
		if string(unescapeForm(rawName)) != name {
			continue
		}
		value := unescapeForm(rawValue)
		if hasInvalidEscape(rawValue) || !utf8.Valid(value) || bytes.IndexByte(value, 0) >= 0 {
			return true
		}
	}
	return false
}

// isFormSeparator reports whether some apps split a form at r.
func isFormSeparator(r rune) bool { return r == '&' || r == ';' }

// hasInvalidEscape reports whether text contains a percent sign without two hexadecimal digits.
func hasInvalidEscape(text []byte) bool {
	for i, c := range text {
		if c != '%' {
			continue
		}
		if len(text)-i < 3 {
			return true
		}
		if _, ok := hexByte(text[i+1], text[i+2]); !ok {
			return true
		}
	}
	return false
}

// foldFieldName returns the name of a form field as the most lenient app reads it, except for case.
// isNested is set if the name of the key contains a bracket, so that brackets belong to names.
func foldFieldName(name []byte, isNested bool) []byte {
	name = bytes.Trim(name, " \t\r\n")
	name, _, _ = bytes.Cut(name, []byte{0})
	if end := bytes.IndexByte(name, '['); end > 0 && !isNested {
		name = name[:end]
	}
	folded := bytes.Clone(name)
	for i, c := range folded {
		if c == ' ' || c == '.' {
			folded[i] = '_'
		}
	}
	return folded
}

// unescapeForm decodes a part of a form. Invalid escapes remain unchanged.
func unescapeForm(text []byte) []byte {
	decoded := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '+':
			c = ' '
		case c == '%' && len(text)-i > 2:
			if value, ok := hexByte(text[i+1], text[i+2]); ok {
				c = value
				i += 2
			}
		}
		decoded = append(decoded, c)
	}
	return decoded
}

// hexByte returns the byte that two hexadecimal digits represent.
func hexByte(high, low byte) (value byte, ok bool) {
	for _, c := range []byte{high, low} {
		digit := bytes.IndexByte([]byte("0123456789abcdef"), c|0x20)
		if digit < 0 || c < '0' || c > '9' && c < 'A' {
			return 0, false
		}
		value = value<<4 | byte(digit)
	}
	return value, true
}

// bodySources returns the sources, and the parts of joined sources, that read the body.
func bodySources(sources []keysource.Source) (found []keysource.Source) {
	for _, source := range sources {
		for _, single := range source.Single() {
			if single.ReadsBody() {
				found = append(found, single)
			}
		}
	}
	return found
}

// unreadBodyHint explains why the sources that read the body found no key. It is empty if they have
// read the body, or there is none.
func (e *Extractor) unreadBodyHint(sources []keysource.Source, body *Body) string {
	hint := ""
	for _, source := range bodySources(sources) {
		if e.hasNoBody(body) {
			continue
		}
		isEncoded, _ := e.hasContentEncoding()
		isReadable, _ := e.isBodyReadable(&source)
		switch {
		case isEncoded:
			hint = "; the body is not read because it has a Content-Encoding"
		case isReadable && body != nil && !body.IsComplete:
			hint = "; the body is not read because it is larger than the buffer (--body-buffer)"
		case !isReadable && hint == "":
			hint = "; the body is not read because of its Content-Type"
		}
	}
	return hint
}
