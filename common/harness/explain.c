#include "explain.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One search may take this many multiply-adds: a few tenths of a second. */
static const double AFFORDABLE = 1e8;

/* TRIED_ROWS limits the wrong rows that a mistake is tried on. SEARCHED limits the elements of an
 * output that is searched for exchanged rows and columns, LARGEST those of any output that is
 * explained. FEWEST is how many elements a mistake must explain, NEEDED how many must be wrong
 * where only their places or their kind is looked at. */
enum { TRIED_ROWS = 48, SEARCHED = 1 << 20, LARGEST = 1 << 26, FEWEST = 3, NEEDED = 8 };

/* The state says what became of an element. */
enum state { RIGHT, UNCHECKED, WRONG, NOT_A_NUMBER, UNWRITTEN };

/* struct view is an output that has wrong elements, with what it should be. */
struct view {
    const struct outputs *outputs;
    const struct mistakes *mistakes;
    const struct tensor *tensor;
    const void *data;
    double bound;
    int index;
    size_t rows, cols;
    double *value, *scale; /* [checked rows, cols] */
    unsigned char *state;  /* [rows, cols] */
    bool whole;            /* every row is checked */
    size_t wrong, nan, unwritten;
    bool *bad_row, *bad_col;
    size_t bad_rows, bad_cols;
};

/* Counts from the first output. */
static int output_of(const struct view *view)
{
    return view->index - view->outputs->input_count;
}

static double out(const struct view *view, size_t row, size_t col)
{
    return tensor_element(view->data, view->tensor->type, row * view->cols + col);
}

static size_t at(const struct view *view, size_t row, size_t col)
{
    return row * view->cols + col;
}

static bool bad(const struct view *view, size_t row, size_t col)
{
    return view->state[at(view, row, col)] > UNCHECKED;
}

/* Returns whether an element is what a mistake would have made of it. The bound is wider than the
 * check's: the mistake's own rounding is measured with the scale of the right value. */
static bool alike(const struct view *view, size_t row, size_t col, double expected)
{
    const double is = out(view, row, col);
    if (isinf(expected))
        return is == expected;
    const double rounding = 8.0 * view->bound * view->scale[at(view, row, col)];
    const double own = 8.0 * view->bound * fabs(expected);
    return fabs(is - expected) <= rounding + own;
}

/* The evidence for a mistake: how many elements it explains, how far they are from what it makes of
 * them, and how far from the right values. */
struct evidence {
    size_t found;
    double left, wrong;
};

/* Adds an element to the evidence. Returns false when it is not what the mistake would have made of
 * it. */
static bool fits(const struct view *view, size_t row, size_t col, double expected,
                 struct evidence *evidence)
{
    if (!alike(view, row, col, expected))
        return false;
    if (bad(view, row, col)) {
        evidence->found++;
        evidence->left += fabs(out(view, row, col) - expected);
        evidence->wrong += fabs(out(view, row, col) - view->value[at(view, row, col)]);
    }
    return true;
}

/* Elements just outside the bound are close to many mistakes. The right mistake leaves a much
 * smaller distance. */
static bool convincing(const struct evidence *evidence)
{
    return evidence->found >= FEWEST && evidence->left <= 0.1 * evidence->wrong;
}

static void append(char *text, size_t bytes, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, bytes - used, format, arguments);
    va_end(arguments);
}

/* ---- The view ---- */

static enum state state_of(const struct view *view, size_t row, size_t col, double value,
                           double scale)
{
    const size_t index = at(view, row, col);
    if (check_is_poison(view->data, view->tensor->type, index, view->index))
        return UNWRITTEN;
    const double is = out(view, row, col);
    if (isnan(value) || isinf(value))
        return is == value || (isnan(is) && isnan(value)) ? RIGHT
               : isnan(is)                                ? NOT_A_NUMBER
                                                          : WRONG;
    if (isnan(is))
        return NOT_A_NUMBER;
    return fabs(is - value) <= view->bound * scale ? RIGHT : WRONG;
}

static void close_view(struct view *view)
{
    free(view->value);
    free(view->scale);
    free(view->state);
    free(view->bad_row);
    free(view->bad_col);
}

/* Returns false where the output is too large. */
static bool open_view(struct view *view, const struct outputs *outputs, int t)
{
    const struct tensor *tensor = &outputs->tensors[t];
    const struct row_list *rows = &outputs->rows[t];
    const size_t count = tensor->rows * tensor->cols;
    *view = (struct view){.outputs = outputs,
                          .mistakes = outputs->problem->mistakes,
                          .tensor = tensor,
                          .data = outputs->host[t],
                          .bound = outputs->problem->bound(outputs->sizes),
                          .index = t,
                          .rows = tensor->rows,
                          .cols = tensor->cols,
                          .whole = rows->count == tensor->rows};
    if (count > LARGEST)
        return false;
    view->value = calloc(count + 1, sizeof *view->value);
    view->scale = calloc(count + 1, sizeof *view->scale);
    view->state = malloc(count + 1);
    view->bad_row = calloc(tensor->rows + 1, sizeof *view->bad_row);
    view->bad_col = calloc(tensor->cols + 1, sizeof *view->bad_col);
    if (!view->value || !view->scale || !view->state || !view->bad_row || !view->bad_col)
        return false;

    memset(view->state, UNCHECKED, count + 1);
    for (size_t i = 0; i < rows->count; i++) {
        const size_t first = rows->row[i] * view->cols, from = i * view->cols;
        memcpy(view->value + first, outputs->value[t] + from, view->cols * sizeof(double));
        memcpy(view->scale + first, outputs->scale[t] + from, view->cols * sizeof(double));
        for (size_t col = 0; col < view->cols; col++)
            view->state[first + col] = (unsigned char)state_of(
                view, rows->row[i], col, view->value[first + col], view->scale[first + col]);
    }
    for (size_t row = 0; row < view->rows; row++)
        for (size_t col = 0; col < view->cols; col++) {
            const enum state state = (enum state)view->state[at(view, row, col)];
            view->wrong += state > UNCHECKED;
            view->nan += state == NOT_A_NUMBER;
            view->unwritten += state == UNWRITTEN;
            if (state > UNCHECKED)
                view->bad_row[row] = view->bad_col[col] = true;
        }
    for (size_t row = 0; row < view->rows; row++)
        view->bad_rows += view->bad_row[row];
    for (size_t col = 0; col < view->cols; col++)
        view->bad_cols += view->bad_col[col];
    return true;
}

/* Returns the heads of a batch entry, and sets *rows to the rows of a head. An output that is one
 * matrix is one head with all rows. */
static size_t heads_of(const struct view *view, size_t *rows)
{
    const size_t *shape = view->tensor->shape;
    const bool headed = shape[2] > 0 && (shape[3] > 0 || view->cols == 1);
    *rows = headed ? shape[2] : view->rows;
    return headed ? shape[1] : 1;
}

static size_t head_rows(const struct view *view)
{
    size_t rows;
    heads_of(view, &rows);
    return rows;
}

/* ---- Where ---- */

/* Writes a set as "rows 3-7, 12", "every 4th row from 3", "all 33 rows" or "11 of 33 rows (0, 2, 3,
 * 7, ...)". */
static void describe_set(char *text, size_t bytes, const bool *member, size_t count,
                         const char *name)
{
    enum { RANGES = 3, LISTED = 4 };
    size_t members = 0, ranges = 0, first = 0, last = 0, step = 0;
    bool regular = true;
    for (size_t i = 0; i < count; i++) {
        if (!member[i])
            continue;
        ranges += i == 0 || !member[i - 1];
        if (members == 0)
            first = i;
        else if (members == 1)
            step = i - first;
        else
            regular = regular && i - last == step;
        last = i;
        members++;
    }
    if (members == count && count == 1)
        append(text, bytes, "%s 0", name);
    else if (members == count)
        append(text, bytes, "all %zu %ss", count, name);
    else if (ranges <= RANGES) {
        append(text, bytes, "%s%s ", name, members > 1 ? "s" : "");
        for (size_t i = 0, written = 0; i < count; i++) {
            if (!member[i] || (i > 0 && member[i - 1]))
                continue;
            size_t end = i;
            while (end + 1 < count && member[end + 1])
                end++;
            append(text, bytes, written++ ? ", %zu" : "%zu", i);
            if (end > i)
                append(text, bytes, "-%zu", end);
        }
        append(text, bytes, " of %zu", count);
    } else if (regular && step == 2)
        append(text, bytes, "every second %s from %zu", name, first);
    else if (regular)
        append(text, bytes, "every %zuth %s from %zu", step, name, first);
    else {
        append(text, bytes, "%zu of %zu %ss (", members, count, name);
        for (size_t i = 0, listed = 0; i < count && listed < LISTED; i++)
            if (member[i])
                append(text, bytes, listed++ ? ", %zu" : "%zu", i);
        append(text, bytes, ", ...)");
    }
}

/* Adds " of head 1" where there are several heads whose wrong rows differ. Rows are then counted
 * within the head. */
static void describe_rows(const struct view *view, char *text, size_t bytes)
{
    const size_t length = head_rows(view), heads = length > 0 ? view->rows / length : 1;
    if (heads <= 1) {
        describe_set(text, bytes, view->bad_row, view->rows, "row");
        return;
    }
    bool *of_head = calloc(heads + length, sizeof *of_head), *of_row = of_head + heads;
    if (!of_head)
        return;
    for (size_t row = 0; row < view->rows; row++)
        if (view->bad_row[row])
            of_head[row / length] = of_row[row % length] = true;
    describe_set(text, bytes, of_head, heads, "head");
    append(text, bytes, ", ");
    describe_set(text, bytes, of_row, length, "row");
    free(of_head);
}

/* Returns the size of the largest tiles of which each is wholly wrong or wholly right; 0 when there
 * are none. */
static size_t tile_of(const struct view *view)
{
    for (size_t T = 128; T >= 8; T /= 2) {
        if (T >= view->rows || T >= view->cols)
            continue;
        size_t filled = 0;
        for (size_t row = 0; row < view->rows; row += T)
            for (size_t col = 0; col < view->cols; col += T) {
                const size_t height = view->rows - row < T ? view->rows - row : T;
                const size_t width = view->cols - col < T ? view->cols - col : T;
                size_t inside = 0;
                for (size_t y = 0; y < height; y++)
                    for (size_t x = 0; x < width; x++)
                        inside += bad(view, row + y, col + x);
                filled += inside == height * width ? inside : 0;
            }
        if (filled == view->wrong)
            return T;
    }
    return 0;
}

static void describe_place(const struct view *view, char *text, size_t bytes)
{
    const size_t checked = view->outputs->rows[view->index].count * view->cols;
    if (view->wrong == checked)
        append(text, bytes, "all %zu elements%s of %s are wrong", checked,
               view->whole ? "" : " looked at", view->tensor->name);
    else
        append(text, bytes, "%zu of %zu elements%s of %s %s wrong", view->wrong, checked,
               view->whole ? "" : " looked at", view->tensor->name,
               view->wrong == 1 ? "is" : "are");
    if (view->unwritten == view->wrong)
        append(text, bytes, " (never written)");
    else if (view->unwritten > 0)
        append(text, bytes, " (%zu never written)", view->unwritten);
    if (view->nan == view->wrong)
        append(text, bytes, " (NaN)");
    else if (view->nan > 0)
        append(text, bytes, " (%zu NaN)", view->nan);
    if (view->wrong == checked || !view->whole)
        return;

    append(text, bytes, ": ");
    describe_rows(view, text, bytes);
    if (view->cols > 1) {
        append(text, bytes, "; ");
        describe_set(text, bytes, view->bad_col, view->cols, "column");
    }
    const size_t T = tile_of(view);
    if (view->wrong == view->bad_rows * view->bad_cols)
        return;
    if (T > 0)
        append(text, bytes, "; whole tiles of %zu x %zu", T, T);
    else
        append(text, bytes, ", but not all of these");
}

/* Draws a character for each piece of the output, at most 64 across and 10 down. */
static void draw(const struct view *view, char *text, size_t bytes)
{
    enum { ACROSS = 64, DOWN = 10 };
    if (!view->whole || view->wrong == view->rows * view->cols)
        return;
    const size_t width = (view->cols + ACROSS - 1) / ACROSS;
    const size_t height = (view->rows + DOWN - 1) / DOWN;
    if (width * ACROSS > 4096 || height * DOWN > 4096)
        return;
    append(text, bytes,
           "%s, %zu x %zu; a character is %zu x %zu: . right  # wrong  + some wrong"
           "%s%s\n",
           view->tensor->name, view->rows, view->cols, height, width, view->nan ? "  ? NaN" : "",
           view->unwritten ? "  _ never written" : "");
    for (size_t row = 0; row < view->rows; row += height) {
        append(text, bytes, "%5zu ", row);
        for (size_t col = 0; col < view->cols; col += width) {
            size_t count[UNWRITTEN + 1] = {0}, all = 0;
            for (size_t y = row; y < row + height && y < view->rows; y++)
                for (size_t x = col; x < col + width && x < view->cols; x++, all++)
                    count[view->state[at(view, y, x)]]++;
            append(text, bytes, "%c",
                   count[RIGHT] == all          ? '.'
                   : count[UNWRITTEN] == all    ? '_'
                   : count[NOT_A_NUMBER] == all ? '?'
                   : count[RIGHT] == 0          ? '#'
                                                : '+');
        }
        append(text, bytes, "\n");
    }
}

static void list_elements(const struct view *view, char *text, size_t bytes)
{
    static const char mark[] = {
        [RIGHT] = '.', [WRONG] = '#', [NOT_A_NUMBER] = '?', [UNWRITTEN] = '_'};
    const size_t count = view->rows * view->cols;
    if (!view->whole)
        return;
    append(text, bytes, "%s %zu %zu: ", view->tensor->name, view->rows, view->cols);
    for (size_t first = 0, next; first < count && strlen(text) + 1 < bytes; first = next) {
        for (next = first + 1; next < count && view->state[next] == view->state[first]; next++)
            continue;
        append(text, bytes, "%zu%c", next - first, mark[view->state[first]]);
    }
    if (strlen(text) + 1 == bytes) /* the text was cut off */
        text[0] = '\0';
}

/* ---- Why. Each rule writes an explanation and returns true, or knows nothing. ---- */

static bool explained(struct explanation *explanation, const char *name, const char *format, ...)
{
    va_list arguments;
    snprintf(explanation->name, sizeof explanation->name, "%s", name);
    va_start(arguments, format);
    vsnprintf(explanation->why, sizeof explanation->why, format, arguments);
    va_end(arguments);
    return true;
}

/*
 * Finds values that come from a thread's own memory before it had a value. The checked build fills
 * that with bytes of 0xfe, as a float -1.69e38. No sum of products of the inputs comes near to it.
 */
static bool without_value(const struct view *view, struct explanation *explanation)
{
    const double filled = -1.6947387e38;
    const bool products = view->mistakes && !view->mistakes->exponentials;
    size_t found = 0, first = 0;
    for (size_t i = 0; i < view->rows * view->cols; i++) {
        if (view->state[i] != WRONG && view->state[i] != NOT_A_NUMBER)
            continue;
        const double is = out(view, i / view->cols, i % view->cols);
        if (view->state[i] == WRONG && (fabs(is - filled) <= 0.01 * fabs(filled) ||
                                        (products && fabs(is) > 1e30 * (1.0 + view->scale[i])))) {
            if (found++ == 0)
                first = i;
        } else if (isfinite(is))
            return false;
    }
    return found >= FEWEST &&
           explained(explanation, "without-value",
                     "%s[%zu][%zu] is %.3g: it was computed from a variable or an array of the "
                     "thread that had no value yet. Look for a sum that does not begin at 0, and "
                     "for an array that should be __shared__",
                     view->tensor->name, first / view->cols, first % view->cols,
                     out(view, first / view->cols, first % view->cols));
}

/* Says where the NaN of an element comes from: "" when arithmetic made it. */
static bool not_a_number(const struct view *view, struct explanation *explanation)
{
    if (view->nan == 0)
        return false;
    for (size_t row = 0; row < view->rows; row++) {
        for (size_t col = 0; col < view->cols; col++) {
            const size_t index = at(view, row, col);
            if (view->state[index] != NOT_A_NUMBER)
                continue;
            for (int t = 0; t <= view->outputs->tensor_count; t++) {
                const bool workspace = t == view->outputs->tensor_count;
                if (!check_comes_from(view->data, view->tensor->type, index,
                                      workspace ? POISON_OF_WORKSPACE : t))
                    continue;
                const char *name = workspace ? "the workspace" : view->outputs->tensors[t].name;
                return explained(explanation, "poison-read",
                                 "%s[%zu][%zu] was computed from %s as it was before the kernel "
                                 "wrote it: %s holds poison (NaN), not zeros, when the kernel "
                                 "begins",
                                 view->tensor->name, row, col, name, name);
            }
            if (check_comes_from(view->data, view->tensor->type, index, POISON_OF_SHARED_MEMORY))
                return explained(explanation, "shared-read",
                                 "%s[%zu][%zu] was computed from shared memory that no thread had "
                                 "written: a place that is not filled, or a missing barrier",
                                 view->tensor->name, row, col);
        }
    }
    return explained(explanation, "not-a-number",
                     "arithmetic made the NaN: (-inf) - (-inf), 0 * inf, 0 / 0 or inf / inf");
}

static bool zeros(const struct view *view, struct explanation *explanation)
{
    for (size_t row = 0; row < view->rows; row++)
        for (size_t col = 0; col < view->cols; col++)
            if (bad(view, row, col) && out(view, row, col) != 0.0)
                return false;
    return explained(
        explanation, "zeros",
        "every wrong element is 0: stored before the sum is there, or with everything "
        "kept out of the sum%s",
        view->mistakes && view->mistakes->exponentials ? "; e^x is 0 when x is below -104" : "");
}

/* Finds outputs of whole numbers where the right ones are not whole. */
static bool integers(const struct view *view, struct explanation *explanation)
{
    enum { SEEN = 4 };
    double seen[SEEN] = {0.0};
    size_t different = 0, found = 0;
    for (size_t i = 0; i < view->rows * view->cols; i++) {
        if (view->state[i] == UNCHECKED)
            continue;
        const double is = out(view, i / view->cols, i % view->cols), value = view->value[i];
        if (is != rint(is) || fabs(is) >= 1e6)
            return false;
        size_t s = 0;
        while (s < different && seen[s] != is)
            s++;
        if (s == different && different < SEEN)
            seen[different++] = is;
        found += view->state[i] == WRONG && fabs(value - rint(value)) > 1e-3;
    }
    return different > 2 && found >= NEEDED &&
           explained(explanation, "integers",
                     "every element of %s is a whole number: a sum, or a part of it, is kept in an "
                     "int instead of a float",
                     view->tensor->name);
}

/* Finds a matrix (each head's) that was written as if it had as many columns as it has rows. */
static bool all_transposed(const struct view *view)
{
    struct evidence evidence = {0};
    for (size_t row = 0; row < view->rows; row++) {
        for (size_t col = 0; col < view->cols; col++) {
            const enum state state = (enum state)view->state[at(view, row, col)];
            const size_t length = head_rows(view), first = row / length * length;
            const size_t index = (row - first) * view->cols + col;
            if (state == RIGHT || state == UNWRITTEN)
                continue;
            if (state != WRONG ||
                !fits(view, row, col, view->value[at(view, first + index % length, index / length)],
                      &evidence))
                return false;
        }
    }
    return convincing(&evidence);
}

static bool transposed(const struct view *view, struct explanation *explanation)
{
    if (!view->whole || head_rows(view) < 2 || view->cols < 2 || !all_transposed(view))
        return false;
    return explained(explanation, "transposed",
                     "%s is stored transposed: element (row, col) is at col * rows + row instead "
                     "of row * columns + col, or row and col are exchanged throughout",
                     view->tensor->name);
}

/* With a shift, each element holds what belongs so many rows and columns, or so many elements,
 * further on. */
struct shift {
    int rows, columns, elements;
    const char *what;
};

static bool from_shifted(const struct view *view, const struct shift *shift, size_t *row,
                         size_t *col)
{
    const size_t index = at(view, *row, *col) + (size_t)shift->elements;
    *row = shift->elements ? index / view->cols : *row + (size_t)shift->rows;
    *col = shift->elements ? index % view->cols : *col + (size_t)shift->columns;
    return *row < view->rows && *col < view->cols; /* a negative number wraps to a very large one */
}

/* An element from outside the matrix may be anything. */
static bool all_but_the_edge(const struct view *view, const struct shift *shift)
{
    struct evidence evidence = {0};
    size_t edge = 0;
    for (size_t row = 0; row < view->rows; row++) {
        for (size_t col = 0; col < view->cols; col++) {
            size_t r = row, c = col;
            if (!bad(view, row, col))
                continue;
            if (!from_shifted(view, shift, &r, &c))
                edge++;
            else if (view->state[at(view, row, col)] != WRONG ||
                     !fits(view, row, col, view->value[at(view, r, c)], &evidence))
                return false;
        }
    }
    /* A single row may resemble its neighbour by chance. */
    return convincing(&evidence) && evidence.found > edge &&
           (shift->rows == 0 || view->bad_rows > 2) && (shift->columns == 0 || view->bad_cols > 2);
}

static bool shifted(const struct view *view, struct explanation *explanation)
{
    static const struct shift shift[] = {
        {0, -1, 0, "column col holds what belongs into column col - 1"},
        {0, 1, 0, "column col holds what belongs into column col + 1"},
        {-1, 0, 0, "row r holds what belongs into row r - 1"},
        {1, 0, 0, "row r holds what belongs into row r + 1"},
        {0, 0, -1, "each element holds what belongs into the one before it"},
        {0, 0, 1, "each element holds what belongs into the one after it"},
    };
    for (size_t i = 0; view->whole && i < sizeof shift / sizeof *shift; i++)
        if (all_but_the_edge(view, &shift[i]))
            return explained(explanation, "shifted",
                             "%s is right but shifted by one: %s. Look for an index that is one "
                             "too large or too small",
                             view->tensor->name, shift[i].what);
    return false;
}

/* Returns the row (or column, if `down` is false) of the right output that line `line` holds;
 * `count` when there is none. A line of zeros may come from past an edge: then it returns
 * `line`. */
static size_t line_held(const struct view *view, bool down, size_t line, size_t count)
{
    const size_t length = down ? view->cols : view->rows;
    bool zero = true;
    for (size_t i = 0; i < length && zero; i++)
        zero = (down ? out(view, line, i) : out(view, i, line)) == 0.0;
    if (zero)
        return line;
    for (size_t n = 0; n <= count; n++) {
        const size_t other = n == 0 ? line : n - 1; /* `line` comes first: it may be hardly wrong */
        size_t i = 0;
        while (i < length && (down ? alike(view, line, i, view->value[at(view, other, i)])
                                   : alike(view, i, line, view->value[at(view, i, other)])))
            i++;
        if (i == length)
            return other;
    }
    return count;
}

/* Finds outputs in which every wrong row (or column) holds what belongs in another. */
static bool lines_swapped(const struct view *view, bool down, struct explanation *explanation)
{
    const size_t count = down ? view->rows : view->cols;
    const bool *bad_line = down ? view->bad_row : view->bad_col;
    size_t line = count, from = count, found = 0;
    for (size_t i = 0; i < count; i++) {
        if (!bad_line[i])
            continue;
        const size_t held = line_held(view, down, i, count);
        if (held == count)
            return false;
        if (held != i && found++ == 0)
            line = i, from = held;
    }
    const char *what = down ? "row" : "column";
    return (found > 1 || (found > 0 && found == (down ? view->bad_rows : view->bad_cols))) &&
           explained(
               explanation, down ? "rows-swapped" : "columns-swapped",
               "%ss of %s have changed places: %s %zu holds what belongs into %s %zu. Look at "
               "how a %s's number is computed from block and thread, when it is read and "
               "when it is stored",
               what, view->tensor->name, what, line, what, from, what);
}

static bool swapped(const struct view *view, struct explanation *explanation)
{
    if (!view->whole || view->nan + view->unwritten > 0 || view->rows * view->cols > SEARCHED ||
        view->rows < 2 || view->cols < 2)
        return false;
    return lines_swapped(view, true, explanation) || lines_swapped(view, false, explanation);
}

/* Chooses wrong rows to try mistakes on. They are spread evenly and include the first and the
 * last. */
static size_t choose(const struct view *view, size_t chosen[TRIED_ROWS])
{
    size_t seen = 0, count = 0;
    for (size_t row = 0; row < view->rows; row++) {
        if (!view->bad_row[row])
            continue;
        if (view->bad_rows <= TRIED_ROWS || seen * (TRIED_ROWS - 1) / (view->bad_rows - 1) >= count)
            chosen[count++] = row;
        seen++;
        if (count == TRIED_ROWS)
            break;
    }
    return count;
}

/* Returns whether a row holds these values, including where it is right. */
static bool row_is(const struct view *view, size_t row, const double *value,
                   struct evidence *evidence)
{
    for (size_t col = 0; col < view->cols; col++)
        if (view->state[at(view, row, col)] != UNWRITTEN &&
            !fits(view, row, col, value[col], evidence))
            return false;
    return true;
}

/* An attempt to explain rows by a mistake, or, if that is null, by sums of the terms begin .. end -
 * 1 alone. */
struct attempt {
    const struct mistake *mistake;
    size_t begin, end;
    bool strict; /* rows that are right beside wrong ones must be right with the mistake, too */
    double *value;
};

static bool row_made_by(const struct view *view, const struct attempt *by, size_t row,
                        struct evidence *evidence)
{
    const struct mistaken_row r = {view->outputs->sizes,
                                   view->outputs->host,
                                   row,
                                   by->mistake ? by->mistake->tile : 0,
                                   output_of(view),
                                   by->value};
    if (by->mistake && !by->mistake->compute(&r))
        return false;
    if (!by->mistake)
        view->mistakes->partial(&r, by->begin, by->end);
    return row_is(view, row, by->value, evidence);
}

/* Returns whether the mistake leaves the first few rows right that are right beside a wrong one. */
static bool spares_right_rows(const struct view *view, const struct attempt *by)
{
    enum { FEW = 4 };
    size_t looked_at = 0;
    struct evidence none = {0};
    for (size_t row = 0; view->whole && row < view->rows && looked_at < FEW; row++) {
        const bool beside =
            (row > 0 && view->bad_row[row - 1]) || (row + 1 < view->rows && view->bad_row[row + 1]);
        if (view->bad_row[row] || !beside)
            continue;
        looked_at++;
        if (!row_made_by(view, by, row, &none))
            return false;
    }
    return true;
}

static bool made_by(const struct view *view, const struct attempt *by)
{
    size_t chosen[TRIED_ROWS];
    struct evidence evidence = {0};
    const size_t count = choose(view, chosen);
    for (size_t i = 0; i < count; i++)
        if (!row_made_by(view, by, chosen[i], &evidence))
            return false;
    return convincing(&evidence) && (!by->strict || spares_right_rows(view, by));
}

static bool known_mistake(const struct view *view, struct explanation *explanation, bool strict,
                          double *value)
{
    for (const struct mistake *mistake = view->mistakes->list; mistake->name; mistake++)
        if (made_by(view, &(struct attempt){mistake, 0, 0, strict, value}))
            return explained(explanation, mistake->name, "%s", mistake->says);
    return false;
}

/* Finds sums that leave out terms at their end or at their beginning. */
static bool partial_sum(const struct view *view, struct explanation *explanation, bool strict,
                        double *value)
{
    enum { STEP = 8 };
    const struct outputs *outputs = view->outputs;
    const double affordable = AFFORDABLE / outputs->problem->reference_cost(outputs->sizes);
    const size_t terms = view->mistakes->terms(outputs->sizes, output_of(view));
    const char *term = view->mistakes->term[output_of(view)];
    size_t step = 1; /* between the ends that are tried; 1 close to the last */
    while ((double)terms / (double)step > affordable && step < terms)
        step *= 2;
    for (size_t n = terms; n-- > 1;) {
        if (terms - n > STEP && n % step != 0)
            continue;
        if (made_by(view, &(struct attempt){NULL, 0, n, strict, value})) {
            const size_t missing = terms - n;
            const bool tile = n % STEP == 0 && missing <= 128 && n >= missing;
            if (tile)
                return explained(explanation, "last-tile",
                                 "the last %zu of %zu %s are missing from the sums: the last tile "
                                 "is left out. How many tiles are there when the size is not a "
                                 "multiple of the tile?",
                                 missing, terms, term);
            return explained(explanation, "only-the-first",
                             "only the first %zu of %zu %s are summed. Look at the end of the loop "
                             "over them",
                             n, terms, term);
        }
        const size_t begin = terms - n;
        /* Of another number, some may have no weight. */
        if ((begin == 1 || begin % STEP == 0) &&
            made_by(view, &(struct attempt){NULL, begin, terms, strict, value}))
            return explained(explanation, "first-missing",
                             "the first %zu of %zu %s are missing from the sums: the loop begins "
                             "too late, or the first tile is overwritten before it is used",
                             begin, terms, term);
    }
    return false;
}

static const char *constant_named(double factor)
{
    static const struct {
        double factor;
        const char *name;
    } known[] = {{M_LOG2E, " = log2(e): base 2 and base e are mixed"},
                 {M_LN2, " = ln 2: base 2 and base e are mixed"},
                 {2.0, ": something is added twice"},
                 {-1.0, ": the sign is wrong"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (fabs(factor - known[i].factor) < 1e-4)
            return known[i].name;
    return "";
}

/* Returns the factor that turns a row of the right output into this one; NAN when no single factor
 * does. */
static double row_factor(const struct view *view, size_t row, struct evidence *evidence)
{
    double factor = NAN;
    size_t largest = 0;
    for (size_t col = 0; col < view->cols; col++)
        if (fabs(view->value[at(view, row, col)]) > fabs(view->value[at(view, row, largest)]))
            largest = col;
    factor = out(view, row, largest) / view->value[at(view, row, largest)];
    for (size_t col = 0; col < view->cols; col++)
        if (!fits(view, row, col, factor * view->value[at(view, row, col)], evidence))
            return NAN;
    return factor;
}

/* Finds one factor for all rows, or one for each. */
static bool factor(const struct view *view, struct explanation *explanation)
{
    double first = NAN, second = NAN;
    bool same = true;
    struct evidence evidence = {0};
    for (size_t row = 0; row < view->rows; row++) {
        if (!view->bad_row[row])
            continue;
        const double here = row_factor(view, row, &evidence);
        if (!isfinite(here) || here == 0.0)
            return false;
        if (isnan(first))
            first = here;
        else if (fabs(here - first) > 1e-4 * fabs(first)) {
            if (same)
                second = here;
            same = false;
        }
    }
    if (!convincing(&evidence) || (!same && view->cols < FEWEST))
        return false;
    if (same && view->bad_rows > 1)
        return explained(explanation, "factor",
                         "every wrong element is %.6g times what it should "
                         "be%s",
                         first, constant_named(first));
    if (same)
        return explained(explanation, "row-factor", "the row is right but for a factor of %.6g",
                         first);
    return explained(explanation, "row-factor",
                     "each row is right but for a factor of its own (%.4g, %.4g, ...): a sum that "
                     "is not rescaled when the maximum grows, or a division that is missing or "
                     "made twice",
                     first, second);
}

/* Finds outputs of which only the columns of lane 0 are right, where a lane has every 32nd column,
 * or every 32nd group of 2 or 4. */
static bool lane_0(const struct view *view, struct explanation *explanation)
{
    enum { LANES = 32 };
    if (!view->whole || !view->mistakes || !view->mistakes->exponentials || view->unwritten > 0)
        return false;
    for (size_t width = 1; width <= 4; width *= 2) {
        size_t others = 0, wrong = 0, of_lane_0 = 0;
        for (size_t row = 0; row < view->rows; row++)
            for (size_t col = 0; view->bad_row[row] && col < view->cols; col++) {
                const bool first = col / width % LANES == 0, is_bad = bad(view, row, col);
                if (first && is_bad)
                    of_lane_0++;
                others += !first;
                wrong += !first && is_bad;
            }
        /* By chance, another lane's element may be right. */
        if (of_lane_0 == 0 && view->cols > 4 * width && view->bad_rows >= FEWEST &&
            wrong * 20 >= others * 19)
            return explained(
                explanation, "lane-0",
                "only the columns of lane 0 are right: after __shfl_down_sync() lane 0 "
                "alone has the whole sum or maximum. The other lanes need it as well, "
                "by __shfl_sync() from lane 0, or use __shfl_xor_sync()");
    }
    return false;
}

/* Returns T when exactly the members that are no multiples of T are set, for the smallest T that is
 * a tile's side; 0 when there is none. A set without its first member alone fits any tile. */
static size_t all_but_multiples(const bool *member, size_t count)
{
    for (size_t T = 4; T <= 64; T *= 2) {
        size_t i = 0;
        while (i < count && member[i] == (i % T != 0))
            i++;
        if (i == count && count >= T)
            return T;
    }
    return 0;
}

/* Finds outputs of which only the first row (or column) of each tile is written. */
static bool first_of_each_tile(const struct view *view, struct explanation *explanation)
{
    const size_t length = head_rows(view);
    bool *of_row = calloc(length + 1, sizeof *of_row);
    size_t rows = 0, cols = 0;
    if (of_row && view->whole && view->unwritten == view->wrong) {
        for (size_t row = 0; row < view->rows; row++)
            of_row[row % length] |= view->bad_row[row];
        if (view->wrong == view->bad_rows * view->cols)
            rows = all_but_multiples(of_row, length);
        if (view->wrong == view->bad_cols * view->rows && view->cols > 1)
            cols = all_but_multiples(view->bad_col, view->cols);
    }
    free(of_row);
    const size_t T = rows > 0 ? rows : cols, all = rows > 0 ? length : view->cols;
    const char *what = rows > 0 ? "row" : "column";
    char which[64];
    if (all > T)
        snprintf(which, sizeof which, "every %zuth %s, from 0, is", T, what);
    else
        snprintf(which, sizeof which, "%s 0%s is", what,
                 view->rows > length ? " of each head" : "");
    return T > 0 &&
           explained(
               explanation, "one-dimension",
               "only %s written, as if threadIdx.y were always 0: it is when the block's size "
               "is one number. Launch with dim3(width, height), or compute both indices from "
               "threadIdx.x",
               which);
}

/* Returns where the partial last tile begins, for the widest tile whose partial one holds the whole
 * set, and at least half of it is in the set; 0 when there is none. */
static size_t rest(const bool *member, size_t count)
{
    size_t first = 0;
    while (first < count && !member[first])
        first++;
    size_t members = 0;
    for (size_t i = first; i < count; i++)
        members += member[i];
    for (size_t T = 128; T >= 8; T /= 2)
        if (count > T && count % T != 0 && first >= count / T * T && first < count &&
            2 * members >= count % T)
            return count / T * T;
    return 0;
}

static bool ragged(const struct view *view, struct explanation *explanation)
{
    const size_t length = head_rows(view);
    bool *of_row = calloc(length + 1, sizeof *of_row);
    if (!of_row || !view->whole || view->wrong < NEEDED) {
        free(of_row);
        return false;
    }
    for (size_t row = 0; row < view->rows; row++)
        of_row[row % length] |= view->bad_row[row];
    const size_t rows = rest(of_row, length), cols = rest(view->bad_col, view->cols);
    free(of_row);
    const size_t whole = rows > 0 ? rows : cols, all = rows > 0 ? length : view->cols;
    return whole > 0 &&
           explained(explanation, "ragged",
                     "the first %zu %s fill whole tiles and are right; only the %zu behind them, "
                     "where a tile is not full, are %s. Look at bounds, and at how many blocks or "
                     "tiles there are",
                     whole, rows > 0 ? "rows" : "columns", all - whole,
                     view->unwritten == view->wrong ? "never written" : "wrong");
}

static bool first_head(const struct view *view, struct explanation *explanation)
{
    size_t length;
    const size_t heads = heads_of(view, &length);
    if (!view->whole)
        return false;
    const size_t all = view->rows / length;
    for (size_t unit = 1; unit <= heads && unit < all; unit = unit == heads ? heads + 1 : heads) {
        size_t wrong = 0;
        for (size_t head = 0; head < all; head++) {
            bool some = false;
            for (size_t row = head * length; row < (head + 1) * length; row++)
                some = some || view->bad_row[row];
            if (some && head < unit)
                return false;
            wrong += some;
        }
        const bool batch = unit == heads && heads > 1;
        const char *what = batch ? "sequence of the batch" : "head";
        if (wrong == all - unit && view->unwritten == view->wrong)
            return explained(explanation, batch ? "first-batch" : "first-head",
                             "only the first %s is written: are there blocks for all of them, and "
                             "which does a block take?",
                             what);
        if (wrong == all - unit)
            return explained(explanation, batch ? "first-batch" : "first-head",
                             "only the first %s is right: look at the offset of the others in Q, "
                             "K, V and O",
                             what);
    }
    return false;
}

/*
 * A problem without a list of mistakes still gets those that show in any output. Its own mistakes
 * come first: where a query of equal keys loses one, its row is that of the query before.
 */
static void find(const struct view *view, struct explanation *explanation)
{
    double *value = malloc((view->cols + 1) * sizeof *value);
    const bool known =
        view->mistakes &&
        output_of(view) <= (view->mistakes->outputs ? view->mistakes->outputs - 1 : 0);
    const bool numbers = view->nan == 0 && view->unwritten < view->wrong;
    if (!value || without_value(view, explanation) || not_a_number(view, explanation) ||
        (numbers && (zeros(view, explanation) || integers(view, explanation) ||
                     transposed(view, explanation))) ||
        (numbers && known &&
         (known_mistake(view, explanation, true, value) ||
          partial_sum(view, explanation, true, value) ||
          known_mistake(view, explanation, false, value) ||
          partial_sum(view, explanation, false, value))) ||
        (numbers && (shifted(view, explanation) || swapped(view, explanation) ||
                     factor(view, explanation) || lane_0(view, explanation))) ||
        first_of_each_tile(view, explanation) || ragged(view, explanation) ||
        first_head(view, explanation)) {
        free(value);
        return;
    }
    free(value);
}

bool explain(const struct outputs *outputs, struct explanation *explanation)
{
    *explanation = (struct explanation){0};
    for (int t = outputs->input_count; t < outputs->tensor_count; t++) {
        struct view view;
        const bool open = open_view(&view, outputs, t);
        const bool wrong = open && view.wrong > 0;
        if (wrong) {
            describe_place(&view, explanation->where, sizeof explanation->where);
            draw(&view, explanation->map, sizeof explanation->map);
            list_elements(&view, explanation->elements, sizeof explanation->elements);
            find(&view, explanation);
        }
        close_view(&view);
        if (wrong)
            return true;
    }
    return false;
}

void explain_as_unstable(struct explanation *explanation)
{
    explained(explanation, "unstable",
              "a second run on the same inputs gave other values. Look for a missing barrier, for "
              "elements that several threads write, and for a sum that does not begin at 0");
}
