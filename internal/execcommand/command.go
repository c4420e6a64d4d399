// Package execcommand parses the command of --exec, and replaces its placeholders.
//
// A Command is a list of words. The value of a placeholder stays within its word, even if it contains spaces, and no shell
// reads the command. A Command is immutable.
package execcommand

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Command is the template of the command of --exec: words, which can contain placeholders.
type Command struct {
	words []word
}

// word is one word of a Command.
type word []part

// part is a piece of text, or a placeholder.
type part struct {
	text        string
	placeholder Placeholder // empty means text
}

// Placeholder is the name of a value that differs between processes.
type Placeholder string

// The placeholders.
const (
	PlaceholderAddr  Placeholder = "addr"  // 127.0.0.1:PORT, at which the process must listen
	PlaceholderPort  Placeholder = "port"  // the port of PlaceholderAddr
	PlaceholderDir   Placeholder = "dir"   // the directory of the process
	PlaceholderKey   Placeholder = "key"   // the key; with --exec-per key only
	PlaceholderShard Placeholder = "shard" // the number of the shard
)

// placeholders returns all placeholders.
func placeholders() []Placeholder {
	return []Placeholder{PlaceholderAddr, PlaceholderPort, PlaceholderDir, PlaceholderKey, PlaceholderShard}
}

// ParseCommand parses a command. Spaces separate words. A word or a part of it can be in single or double quotes, and a
// backslash makes the next character ordinary, except in single quotes. There are no variables, globs or operators,
// because no shell runs. {{ and }} mean braces.
func ParseCommand(text string) (Command, error) {
	if strings.ContainsRune(text, 0) {
		return Command{}, errors.New("it contains a NUL byte")
	}
	parser := commandParser{rest: text}
	if err := parser.parse(); err != nil {
		return Command{}, err
	}
	command := Command{words: parser.words}
	if len(command.words) == 0 {
		return Command{}, errors.New("it is empty")
	}
	program := command.words[0]
	if len(program) == 0 || slices.ContainsFunc(program, func(p part) bool { return p.placeholder != "" }) {
		return Command{}, errors.New("its first word is not the fixed name of a program")
	}
	return command, nil
}

// commandParser parses a command.
type commandParser struct {
	rest    string
	words   []word
	current word
	inWord  bool // the current word has begun; it can be empty because of quotes
}

// parse parses the whole command.
func (p *commandParser) parse() error {
	quote := byte(0)
	for p.rest != "" {
		c := p.rest[0]
		switch {
		case c == quote:
			quote = 0
			p.skip(1)
		case quote == '\'':
			if err := p.take(); err != nil {
				return err
			}
		case c == '\\':
			if len(p.rest) == 1 {
				return errors.New("it ends with a backslash")
			}
			p.add(p.rest[1:2])
			p.skip(2)
		case quote == 0 && (c == '\'' || c == '"'):
			quote, p.inWord = c, true
			p.skip(1)
		case quote == 0 && strings.IndexByte(" \t\r\n", c) >= 0:
			p.endWord()
			p.skip(1)
		default:
			if err := p.take(); err != nil {
				return err
			}
		}
	}
	if quote != 0 {
		return fmt.Errorf("a %c has no end", quote)
	}
	p.endWord()
	return nil
}

// skip removes n bytes of the rest.
func (p *commandParser) skip(n int) { p.rest = p.rest[n:] }

// add adds text to the current word.
func (p *commandParser) add(text string) {
	p.inWord = true
	if last := len(p.current) - 1; last >= 0 && p.current[last].placeholder == "" {
		p.current[last].text += text
		return
	}
	p.current = append(p.current, part{text: text})
}

// endWord ends the current word, if one has begun.
func (p *commandParser) endWord() {
	if p.inWord {
		p.words = append(p.words, p.current)
	}
	p.current, p.inWord = nil, false
}

// take takes one character or a placeholder.
func (p *commandParser) take() error {
	switch {
	case strings.HasPrefix(p.rest, "{{"), strings.HasPrefix(p.rest, "}}"):
		p.add(p.rest[:1])
		p.skip(2)
		return nil
	case p.rest[0] == '}':
		return errors.New("a } has no {; write }} for a brace")
	case p.rest[0] != '{':
		p.add(p.rest[:1])
		p.skip(1)
		return nil
	}
	name, after, found := strings.Cut(p.rest[1:], "}")
	if !found || !slices.Contains(placeholders(), Placeholder(name)) {
		return fmt.Errorf("{%.20s is not one of {addr}, {port}, {dir}, {key} and {shard}; write {{ for a brace", name)
	}
	p.inWord = true
	p.current = append(p.current, part{placeholder: Placeholder(name)})
	p.rest = after
	return nil
}

// Uses reports whether the command contains a placeholder.
func (c Command) Uses(placeholder Placeholder) bool {
	return slices.ContainsFunc(c.words, func(w word) bool {
		return slices.ContainsFunc(w, func(p part) bool { return p.placeholder == placeholder })
	})
}

// Program returns the first word.
func (c Command) Program() string { return c.words[0][0].text }

// Args returns the words with values for the placeholders. Each value stays within its word.
func (c Command) Args(values map[Placeholder][]byte) [][]byte {
	args := make([][]byte, 0, len(c.words))
	for _, w := range c.words {
		arg := []byte{}
		for _, p := range w {
			if p.placeholder != "" {
				arg = append(arg, values[p.placeholder]...)
			} else {
				arg = append(arg, p.text...)
			}
		}
		args = append(args, arg)
	}
	return args
}

// CheckKey returns an error if the key cannot be an argument or a part of the environment. Such a key contains a
// NUL byte, or looks like an option to the program. If the command has the word -- before the key, the key may
// begin with -.
func (c Command) CheckKey(key []byte) error {
	if bytes.IndexByte(key, 0) >= 0 {
		return errors.New("the key contains a NUL byte, which no argument can contain")
	}
	if !bytes.HasPrefix(key, []byte("-")) {
		return nil
	}
	for _, w := range c.words {
		switch {
		case len(w) == 1 && w[0].text == "--":
			return nil
		case len(w) > 0 && w[0].placeholder == PlaceholderKey:
			return errors.New("the key begins with -, and the app would take it for an option; put -- or a prefix before {key} in --exec")
		}
	}
	return nil
}
