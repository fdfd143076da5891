package org.dubmesh.interop;

/** A subclass of what the methods name. */
public class Book extends Item {
    private static final long serialVersionUID = 1L;

    private int pages;
    private Item cover;

    public int getPages() {
        return pages;
    }

    public void setPages(int pages) {
        this.pages = pages;
    }

    public Item getCover() {
        return cover;
    }

    public void setCover(Item cover) {
        this.cover = cover;
    }

    @Override
    public String toString() {
        return super.toString() + "*" + pages + (cover == null ? "" : "+" + cover);
    }
}
