package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every link of the documents to a file of the repository leads to a file, and its fragment to a heading.
func TestLinksOfTheDocuments(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	links := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if entry.IsDir() && (entry.Name() == "bin" || entry.Name() == ".git") {
			return fs.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		for _, link := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(prose(t, path), -1) {
			links++
			if fault := follow(t, path, link[1]); fault != "" {
				t.Errorf("%s: the link to %s %s", strings.TrimPrefix(path, root+"/"), link[1], fault)
			}
		}
		return nil
	})
	must(t, err)
	if links < 100 {
		t.Errorf("only %d links found", links)
	}
}

// follow returns what is wrong with a link, "" where nothing is or it leads elsewhere.
func follow(t *testing.T, from, link string) string {
	t.Helper()
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return ""
	}
	file, fragment, _ := strings.Cut(link, "#")
	target := from
	if file != "" {
		target = filepath.Join(filepath.Dir(from), file)
	}
	if _, err := os.Stat(target); err != nil {
		return "names no file"
	}
	if fragment == "" || filepath.Ext(target) != ".md" {
		return ""
	}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(prose(t, target), -1) {
		if slug(heading[1]) == fragment {
			return ""
		}
	}
	return "names no heading"
}

// slug is the fragment that GitHub gives to a heading.
func slug(heading string) string {
	heading = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(heading, "$1")
	heading = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(heading, " ", "-")
}

// prose is a document without its blocks of code.
func prose(t *testing.T, path string) string {
	t.Helper()
	return regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(readFile(t, path), "")
}
