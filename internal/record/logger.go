package record

import (
	"fmt"
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// NewLogger returns a logger that hands every line to w at once: nothing is sampled and nothing is
// buffered. Level is a zap level (debug, info, warn,
// error), format is json or console.
func NewLogger(level, format string, w io.Writer) (*zap.Logger, error) {
	least, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("reading the log level: %w", err)
	}
	settings := zapcore.EncoderConfig{
		TimeKey:        keyTimestamp,
		LevelKey:       keyLevel,
		NameKey:        "logger",
		MessageKey:     keyConstMessage,
		StacktraceKey:  "stacktrace",
		LineEnding:     zapcore.DefaultLineEnding,
		EncodeLevel:    zapcore.LowercaseLevelEncoder,
		EncodeTime:     zapcore.RFC3339NanoTimeEncoder,
		EncodeDuration: zapcore.SecondsDurationEncoder,
		EncodeName:     zapcore.FullNameEncoder,
	}
	var encoder zapcore.Encoder
	switch format {
	case "json":
		encoder = zapcore.NewJSONEncoder(settings)
	case "console":
		encoder = zapcore.NewConsoleEncoder(settings)
	default:
		return nil, fmt.Errorf("reading the log format: unknown format %q: json or console", format)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), least)), nil
}
