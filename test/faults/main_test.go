package faults

import (
	"os"
	"testing"

	"github.com/evictd/evictd/test/internal/evictdtest"
)

func TestMain(m *testing.M) { os.Exit(evictdtest.Main(m)) }
