package program

import (
	"debug/buildinfo"
	"fmt"
)

// Binary is a Go program as it was built.
type Binary struct {
	// OS and Architecture are those that it is built for, by Go's names.
	OS, Architecture string
	// Info has the modules that are linked in.
	Info *buildinfo.BuildInfo
}

// Platform returns os/architecture.
func (b Binary) Platform() string { return b.OS + "/" + b.Architecture }

// Read reads what a Go program records of its build. It fails if the file is not a Go program.
func Read(path string) (Binary, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return Binary{}, fmt.Errorf("reading the build of %s: %w", path, err)
	}
	b := Binary{Info: info}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "GOOS":
			b.OS = setting.Value
		case "GOARCH":
			b.Architecture = setting.Value
		}
	}
	return b, nil
}
