'use strict';
// A link to a moment opens it in the run on the same page, if that is the run of the same kernel. A run has the theme of the book.

document.addEventListener('DOMContentLoaded', () => {
  const theme = () => {
    const { theme: chosen } = document.body.dataset;
    return chosen === 'dark' || chosen === 'light' ? chosen : matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  };
  for (const run of document.querySelectorAll('iframe.run')) run.src += `#theme=${theme()}`;
  // What scrolls sideways can be scrolled by keys, and what the theme leaves without a name has one.
  const reach = () => {
    for (const box of document.querySelectorAll('.highlight pre, .table-wrapper, p:has(> img)'))
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0; else box.removeAttribute('tabindex');
  };
  reach();
  window.addEventListener('resize', reach);
  document.querySelector('.sidebar-drawer')?.setAttribute('aria-label', 'all pages');
  document.querySelector('.toc-drawer')?.setAttribute('aria-label', 'on this page');
  if (!document.querySelector('h1'))
    document.querySelector('article')?.prepend(Object.assign(document.createElement('h1'), { textContent: document.title.split(' - ')[0] }));
  document.addEventListener('click', event => {
    const link = event.target.closest('a.moment'), run = link && document.getElementById(`run-${link.dataset.run}`);
    if (!run || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    run.src = `${link.href}${link.href.includes('#') ? '&' : '#'}theme=${theme()}`;
    run.scrollIntoView({ block: 'center' });
  });
});
